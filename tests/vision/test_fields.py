"""Values in text that was read: the right one, or none."""

from __future__ import annotations

import pytest

from edgewise.vision.question import (
    FIELDS,
    field_named,
    find_field,
)

RECEIPT = (
    "Corner Shop", "12/11/2026 14:05", "Milk 1.20", "Bread 2.30", "Subtotal 3.50", "VAT 0.25",
    "Total  3.75 EUR", "Cash 5.00", "Change 1.25", "Tel: +49 30 123456", "www.corner.example/shop",
)  # fmt: skip
INVOICE = (
    "Invoice No: R-2041", "Date: 3 March 2026", "Bill to Anna Berg", "Net 100.00", "Grand total",
    "$1,119.00", "Due date 2026-04-02", "mail: billing@hill.example",
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "name", "value"),
    [
        (RECEIPT, "total", "3.75 EUR"),
        (RECEIPT, "subtotal", "3.50"),
        (RECEIPT, "tax", "0.25"),
        (RECEIPT, "date", "12/11/2026"),
        (RECEIPT, "time", "14:05"),
        (RECEIPT, "phone number", "+49 30 123456"),
        (RECEIPT, "website", "www.corner.example/shop"),
        (RECEIPT, "invoice number", ""),
        (RECEIPT, "email", ""),
        (INVOICE, "invoice number", "R-2041"),
        (INVOICE, "date", "3 March 2026"),
        (INVOICE, "due date", "2026-04-02"),
        (INVOICE, "total", "$1,119.00"),
        (INVOICE, "email", "billing@hill.example"),
        (("Milk 1.20", "Bread 2.30"), "total", ""),
        ((), "total", ""),
    ],
)
def test_a_field_is_found_by_its_label(rows: tuple[str, ...], name: str, value: str) -> None:
    assert find_field(rows, name)[0] == value


def test_two_different_totals_are_rivals() -> None:
    assert find_field(("Total 3.50", "Total 4.50"), "total") == ("3.50", 2)
    assert find_field(("Total 3.50", "Total 3.50"), "total") == ("3.50", 1)


def test_fields_have_other_names() -> None:
    assert field_named("Grand Total") == "total"
    assert field_named("e-mail address") == "email"
    assert field_named("meaning of life") == ""
    assert all(field_named(name) == name for name in FIELDS)
