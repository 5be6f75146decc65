"""What is endless is cut before it is written out, and nothing else is touched."""

import pytest

from mlcheck.cli.output import FORMATS, rendered
from mlcheck.core.report import Report
from mlcheck.report.bounds import bounded


def test_a_report_of_sensible_length_stays_as_it_is(report: Report) -> None:
    assert repr(bounded(report)) == repr(report)  # NaN is not equal to itself


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
def test_ten_megabytes_in_every_place_leave_a_file_that_opens(form: str, endless: Report) -> None:
    text = rendered(endless, form, strict=False)
    assert len(text) < 5_000_000
    assert form != "html" or text.count("</script>") == 1
