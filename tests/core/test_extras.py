"""Parts of mlcheck that need packages say which, and how to get them."""

import pytest

from mlcheck.core.extras import require
from mlcheck.core.mistake import Mistake


def test_what_is_missing_is_named_with_the_command_that_installs_it() -> None:
    require("probe", ("json", "os"))
    with pytest.raises(Mistake, match=r"^`mlcheck probe` needs no_such_thing: pip install 'mlcheck\[probe\]'$"):
        require("probe", ("json", "no_such_thing"))
