"""Documents: spreadsheets with openpyxl, PDF with reportlab and pypdf."""

from __future__ import annotations

import functools
import io
import zipfile

from openpyxl import Workbook, load_workbook
from pypdf import PdfReader
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

STABLE = True
PACKAGES = ("openpyxl", "reportlab", "pypdf")
ROWS = 300
COLUMNS = 8
PAGES = 3
LINES = 45  # per page
SHEET = "xl/worksheets/sheet1.xml"


def excel_export() -> bytes:
    """Write a spreadsheet of 300 x 8 cells, and return its sheet XML, which contains no date."""
    with zipfile.ZipFile(io.BytesIO(_workbook())) as archive:
        return archive.read(SHEET)


def excel_import() -> str:
    """Read a spreadsheet of 300 x 8 cells and sum up its columns."""
    book = load_workbook(io.BytesIO(_uploaded()), read_only=True)
    totals = [0] * COLUMNS
    for row in book.worksheets[0].iter_rows(values_only=True):
        totals = [total + int(str(value)) for total, value in zip(totals, row, strict=True)]
    book.close()
    return str(totals)


def pdf_invoice() -> bytes:
    """Draw a PDF of three pages with 45 lines each."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4, invariant=1)
    for page in range(PAGES):
        canvas.setFont("Helvetica", 10)
        for line in range(LINES):
            height = A4[1] - 60 - 16 * line
            canvas.drawString(50, height, f"Item {page * LINES + line} of the order")
            canvas.drawRightString(500, height, f"{(line * 137 + page) / 100:.2f} EUR")
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def pdf_text() -> str:
    """Read the text of a PDF of three pages."""
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(_received())).pages)


def _workbook() -> bytes:
    book = Workbook(write_only=True)
    sheet = book.create_sheet("orders")
    for row in range(ROWS):
        sheet.append([row * 31 * (column + 1) % 1009 for column in range(COLUMNS)])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@functools.cache
def _uploaded() -> bytes:
    return _workbook()


@functools.cache
def _received() -> bytes:
    return pdf_invoice()
