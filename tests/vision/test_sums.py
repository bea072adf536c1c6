"""Which sum of a receipt is its total."""

from __future__ import annotations

import pytest

from edgewise.vision.answers import find_total, sums_of


@pytest.mark.parametrize(
    ("rows", "total"),
    [
        (("Milk  1.20", "Subtotal  10.00", "GST 6%  0.60", "TOTAL  10.60"), "10.60"),
        (("Total  20.00", "Total discount  -2.00", "Total to pay  18.00", "Card  18.00"), "18.00"),
        (("Total items  3", "Total  $12.30", "Cash  $20.00", "Change  $7.70"), "$12.30"),
        (("TOTAL", "10.60", "CASH", "20.00", "CHANGE", "9.40"), "10.60"),
        (("Total Sales (Incl GST)  10.62", "Rounding adj  -0.02", "Total RM  10.60"), "10.60"),
        (("Tee  12.000", "TOTAL  45.500", "TUNAI  50.000", "KEMBALI  4.500"), "45.500"),
        (("Summe  1.234,50 EUR", "Bar  1.300,00 EUR", "R\u00fcckgeld  65,50 EUR"), "1.234,50 EUR"),
        (("TOTAL  45.92", "CASH  50.00", "CHANGE  4.08", "Net total  42.92"), "45.92"),
        (("Amount due........73.84", "Cash tendered....80.00"), "73.84"),
    ],
)
def test_the_total_is_what_is_to_be_paid(rows: tuple[str, ...], total: str) -> None:
    found = find_total(rows)
    assert found is not None
    assert (found.written, total in rows[found.row]) == (total, True)


def test_a_label_that_was_misread_is_made_up_for_by_the_other_sums() -> None:
    rows = ("Milk  4.00", "Bread  6.00", "T0TAI  10.00", "Cash  20.00", "Change  10.00")
    found = find_total(rows)
    assert found is not None and found.written == "10.00"
    assert (found.evidence["labelled"], found.evidence["agree"]) == (0.0, 2.0)


def test_sums_that_do_not_agree_speak_against_a_total() -> None:
    found = find_total(("TOTAL  16.00", "Cash  20.00", "Change  10.00"))
    assert found is not None
    assert (found.evidence["agree"], found.evidence["against"]) == (0.0, 1.0)


def test_dates_times_shares_and_codes_are_no_sums() -> None:
    rows = ("12.05.2026  10:42", "Tax 6.00 %", "Tel 03.12.45.99.01", "No 1234")
    assert sums_of(rows) == []
    assert find_total(rows) is None
    assert find_total(()) is None


def test_of_several_sums_on_a_row_the_last_is_its_own() -> None:
    (one,) = sums_of(["2 x 3.50  7.00"])
    assert (one.value, one.role) == (7.0, "item")
