"""The table of programs that only read, with the options that keep it so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dsh_permission.names import names
from dsh_permission.programs.options import Options


@dataclass(frozen=True, slots=True)
class Reader:
    """A program that reads.

    Args:
        options: The options that keep it reading.
        operands: What its operands are: files to `read` or to `list`, or `text`.
        skip: Leading operands that are no files.
        most: Operands it may have.
        takes_globs: Whether a file whose name begins with `-` can do no harm.
        files_of: Options whose values are files it reads.
        skip_unless: With one of these options no operand is skipped.
        recursive: Options that make it read all that is below.
        following: Options that make it follow links below.

    """

    options: Options
    operands: Literal["read", "list", "text"] = "read"
    skip: int = 0
    most: int = 10_000
    takes_globs: bool = True
    files_of: tuple[str, ...] = ()
    skip_unless: tuple[str, ...] = ()
    recursive: tuple[str, ...] = ()
    following: tuple[str, ...] = ()


_O = Options.of
_GREP = _O(
    "EFGPivwxyclLoqsbHhnTZazrRUe:m:A:B:C:f:D:d:",
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case "
    "invert-match word-regexp line-regexp count color? colour? files-without-match "
    "files-with-matches only-matching quiet silent no-messages byte-offset with-filename "
    "no-filename line-number initial-tab null text null-data recursive dereference-recursive "
    "binary regexp= max-count= after-context= before-context= context= file= include= exclude= "
    "exclude-from= exclude-dir= label= binary-files= directories= devices=",
    digits=True,
)
_SUM = _O("bctwz", "binary check text tag zero ignore-missing quiet status strict warn")

READERS: Mapping[str, Reader] = {
    "ls": Reader(
        _O(
            "aAbBcCdDfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1",
            "all almost-all author escape block-size= ignore-backups color? directory classify? "
            "file-type format= full-time group-directories-first no-group human-readable si "
            "dereference-command-line dereference hide= hyperlink? indicator-style= inode ignore= "
            "literal numeric-uid-gid hide-control-chars show-control-chars quote-name "
            "quoting-style= reverse recursive size sort= time= time-style= tabsize= width= zero",
        ),
        "list",
    ),
    "cat": Reader(
        _O(
            "AbeEnstTuv",
            "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        )
    ),
    "tac": Reader(_O("brs:", "before regex separator=")),
    "rev": Reader(_O("0", "zero")),
    "nl": Reader(_O("pb:d:f:h:i:l:n:s:v:w:")),
    "head": Reader(
        _O("qvzn:c:", "quiet silent verbose zero-terminated lines= bytes=", digits=True)
    ),
    "tail": Reader(
        _O("qvzn:c:", "quiet silent verbose zero-terminated lines= bytes=", digits=True)
    ),
    "wc": Reader(_O("clLmw", "bytes chars lines max-line-length words total=")),
    "stat": Reader(
        _O("Lftc:", "dereference file-system terse format= printf= cached="), "list"
    ),
    "du": Reader(
        _O(
            "0abcDHhkLlmPSsxd:t:B:",
            "null all apparent-size block-size= bytes total dereference-args max-depth= "
            "human-readable inodes dereference count-links no-dereference separate-dirs si "
            "summarize threshold= time? time-style= exclude= one-file-system",
        ),
        "list",
    ),
    "df": Reader(
        _O(
            "ahHiklPTBt:x:",
            "all block-size= human-readable si inodes local no-sync output? portability "
            "print-type total type= exclude-type=",
        ),
        "list",
    ),
    "tree": Reader(
        _O("adfilxpsghuDFrtcUvCAnSL:P:I:", "dirsfirst noreport prune gitignore filelimit= du si"),
        "list",
        takes_globs=False,
    ),
    "cut": Reader(
        _O(
            "nszb:c:d:f:",
            "bytes= characters= delimiter= fields= complement only-delimited "
            "output-delimiter= zero-terminated",
        )
    ),
    "tr": Reader(_O("cCdst", "complement delete squeeze-repeats truncate-set1"), "text", most=2),
    "sort": Reader(
        _O(
            "bdfgiMhnRrVcCmsuzk:t:S:",
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort "
            "ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse "
            "version-sort check? merge stable unique zero-terminated key= field-separator= "
            "buffer-size= parallel= sort=",
        ),
        takes_globs=False,
    ),
    "uniq": Reader(
        _O(
            "cdDiuzf:s:w:",
            "count repeated all-repeated? skip-fields= group? ignore-case skip-chars= unique "
            "zero-terminated check-chars=",
        ),
        most=1,
        takes_globs=False,
    ),
    "comm": Reader(
        _O("123z", "check-order nocheck-order output-delimiter= total zero-terminated")
    ),
    "cmp": Reader(_O("bilsn:", "print-bytes ignore-initial= verbose bytes= quiet silent")),
    "diff": Reader(
        _O(
            "abBdEHiNpqrswyTtZcuC:U:I:x:W:X:",
            "text ignore-space-change ignore-blank-lines brief ignore-case recursive "
            "report-identical-files ignore-all-space side-by-side unified? context? "
            "ignore-matching-lines= exclude= width= color? label= normal no-dereference new-file "
            "suppress-common-lines strip-trailing-cr minimal",
        ),
        files_of=("-X",),
        recursive=("-r", "--recursive"),
        takes_globs=False,
    ),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"),
        Reader(_SUM),
    ),
    "cksum": Reader(_O("")),
    "od": Reader(_O("bcdfilosxvA:j:N:t:w:S:", "address-radix= skip-bytes= read-bytes= format=")),
    "base64": Reader(_O("diw:", "decode ignore-garbage wrap=")),
    "fold": Reader(_O("bsw:", "bytes spaces width=", digits=True)),
    "paste": Reader(_O("szd:", "serial zero-terminated delimiters=")),
    "column": Reader(_O("txs:o:c:N:", "table separator= output-separator=")),
    "file": Reader(_O("bikLhN", "brief mime mime-type mime-encoding")),
    "grep": Reader(
        _GREP,
        skip=1,
        skip_unless=("-e", "-f", "--regexp", "--file"),
        files_of=("-f", "--file", "--exclude-from"),
        recursive=("-r", "-R", "--recursive", "--dereference-recursive", "-d", "--directories"),
        following=("-R", "--dereference-recursive"),
        takes_globs=False,
    ),
    "rg": Reader(
        _O(
            "FinsSwxvclLoqNHIUahpPu.0e:m:A:B:C:f:g:t:T:j:d:M:r:E:",
            "fixed-strings ignore-case no-ignore-case smart-case case-sensitive word-regexp "
            "line-regexp invert-match count count-matches files-with-matches files-without-match "
            "only-matching quiet line-number no-line-number with-filename no-filename multiline "
            "text hidden pretty pcre2 unrestricted null regexp= max-count= after-context= "
            "before-context= context= file= glob= iglob= type= type-not= threads= max-depth= "
            "max-columns= replace= encoding= color= colors= heading no-heading files json stats "
            "sort= sortr= trim vimgrep column no-ignore no-ignore-vcs type-list no-messages "
            "max-filesize= multiline-dotall passthru no-config",
        ),
        skip=1,
        skip_unless=("-e", "-f", "--regexp", "--file", "--files", "--type-list"),
        files_of=("-f", "--file"),
        recursive=("",),
        following=("-L",),
        takes_globs=False,
    ),
    "realpath": Reader(
        _O("eLmPqsz", "canonicalize-existing logical canonicalize-missing physical quiet strip "
           "no-symlinks zero relative-to= relative-base="),
        "text",
    ),
    "readlink": Reader(
        _O("efmnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline quiet "
           "silent verbose zero"),
        "list",
    ),
    "basename": Reader(_O("azs:", "multiple suffix= zero"), "text"),
    "dirname": Reader(_O("z", "zero"), "text"),
    "which": Reader(_O("a", "all"), "text"),
    "type": Reader(_O("afptP"), "text"),
    "pwd": Reader(_O("LP"), "text", most=0),
    "whoami": Reader(_O(""), "text", most=0),
    "id": Reader(_O("agGnruzZ", "group groups name real user zero"), "text"),
    "uname": Reader(
        _O("asnrvmpio", "all kernel-name nodename kernel-release kernel-version machine "
           "processor hardware-platform operating-system"),
        "text",
        most=0,
    ),
    "nproc": Reader(_O("", "all ignore="), "text", most=0),
    "sleep": Reader(_O(""), "text"),
    "seq": Reader(_O("ws:f:", "equal-width separator= format="), "text"),
    "expr": Reader(_O(""), "text"),
    "true": Reader(_O(""), "text"),
    "false": Reader(_O(""), "text"),
    "hostname": Reader(_O("fsiI"), "text", most=0),
    "arch": Reader(_O(""), "text", most=0),
    "groups": Reader(_O(""), "text"),
    "uptime": Reader(_O("ps", "pretty since"), "text", most=0),
}  # fmt: skip
ALIASES = {"egrep": "grep", "fgrep": "grep", "dir": "ls"}

VERSIONS = names(
    "python python3 node npm ruby perl php java gcc g++ clang make cmake bash docker uv git "
    "pip pip3 go"
)
"""Programs that `--version` keeps from running anything a folder brings. rustup's proxies (`cargo`)
and test runners load what the folder says before they answer."""
