from __future__ import annotations

from functools import partial

import pytest

from dsh_core.tools.docstring import parameter_docs, summary_of


def google(path, limit=3, *rest):
    """Read a file.

    Lines are numbered.
    A second line of the paragraph.

    Note: binary files are refused.

    Args:
        path: File to read, relative
            to the working directory.
        limit (int, optional): Most lines: a
            page.

            The rest is told.
        *rest: Other files.

    Returns:
        text: The lines.
    """


def numpy(path, start, stop):
    """Read a file.

    Parameters
    ----------
    path : str
        File to read.
    start, stop : int
        First and
        last line.

    Returns
    -------
    str
        The lines.
    """


def rest(path, limit):
    """Read a file, see :class:`Path`.

    :param path: File to read,
        relative to here.
    :param int limit: Most lines.
    :returns: The lines.
    """


@pytest.mark.parametrize(
    ("function", "docs"),
    [
        (
            google,
            {
                "path": "File to read, relative to the working directory.",
                "limit": "Most lines: a page. The rest is told.",
                "rest": "Other files.",
            },
        ),
        (
            numpy,
            {
                "path": "File to read.",
                "start": "First and last line.",
                "stop": "First and last line.",
            },
        ),
        (rest, {"path": "File to read, relative to here.", "limit": "Most lines."}),
    ],
)
def test_parameters_are_described_in_every_common_style(function, docs):
    assert parameter_docs(function) == docs


@pytest.mark.parametrize(
    ("function", "summary"),
    [
        (
            google,
            "Read a file.\n\nLines are numbered.\nA second line of the paragraph.\n\n"
            "Note: binary files are refused.",
        ),
        (numpy, "Read a file."),
        (rest, "Read a file, see :class:`Path`."),
    ],
)
def test_the_summary_is_all_before_the_first_section(function, summary):
    assert summary_of(function) == summary


@pytest.mark.parametrize("header", ["Args:", "Returns:", "Raises:", "Example:", "Examples::"])
def test_each_section_ends_the_summary(header):
    def function():
        pass

    function.__doc__ = f"Do it.\n\n    {header}\n        More.\n    "

    assert summary_of(function) == "Do it."


def test_a_section_word_inside_a_sentence_ends_nothing():
    def function():
        """Do it.

        Returns: what it did. Example: none.
        """

    assert summary_of(function) == "Do it.\n\nReturns: what it did. Example: none."


def test_a_function_without_docstring_says_nothing():
    def function(path):
        pass

    assert summary_of(function) == ""
    assert parameter_docs(function) == {}


def test_a_colon_in_a_continuation_line_begins_no_parameter():
    def function(mode):
        """Do it.

        Args:
            mode: One of
                fast: at once
                slow: later
        """

    assert parameter_docs(function) == {"mode": "One of fast: at once slow: later"}


def test_a_partial_function_has_the_docstring_of_its_function():
    assert summary_of(partial(numpy, "a")) == "Read a file."
    assert parameter_docs(partial(numpy, "a"))["path"] == "File to read."


def test_a_method_has_the_docstring_it_inherits():
    class Base:
        def read(self, path):
            """Read.

            Args:
                path: A file.
            """

    class Derived(Base):
        def read(self, path):
            return path

    assert summary_of(Derived().read) == "Read."
    assert parameter_docs(Derived().read) == {"path": "A file."}
