from dsh_core.adapters.scripted import ScriptedModel as ScriptedModel
from dsh_core.testing import behaviours as behaviours
from dsh_core.testing.log import assert_balanced as assert_balanced
from dsh_core.testing.log_text import render_log as render_log
from dsh_core.testing.model_server import ModelServer as ModelServer
