"""Tables: pandas, which is slow to import."""

from __future__ import annotations

import functools
import io

import pandas as pd

STABLE = True
PACKAGES = ("pandas",)
ROWS = 60_000


def pandas_report() -> str:
    """Group 60,000 sales by shop and month, and write the sums as CSV."""
    sales = _sales()
    sums = sales.groupby(["shop", "month"])["cents"].agg(["sum", "mean", "max"]).round(3)
    return sums.sort_values("sum", ascending=False).to_csv()


def pandas_csv_import() -> str:
    """Read 60,000 rows of CSV and describe a column."""
    return pd.read_csv(io.BytesIO(_file()))["cents"].describe().round(3).to_json()


def pandas_join() -> str:
    """Join 60,000 sales with their shops, and sum them up by region."""
    joined = _sales().merge(_shops(), on="shop")
    return joined.groupby("region")["cents"].sum().to_json()


def pandas_pivot() -> str:
    """Build a pivot table of 60,000 sales by shop and month, and write it as CSV."""
    return _sales().pivot_table("cents", "shop", "month", "sum").to_csv()


@functools.cache
def _shops() -> pd.DataFrame:
    names = [f"shop {n}" for n in range(41)]
    return pd.DataFrame({"shop": names, "region": [f"region {n % 5}" for n in range(41)]})


@functools.cache
def _sales() -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(_file()))


@functools.cache
def _file() -> bytes:
    rows = (f"shop {n * n % 41},{n % 12 + 1},{n * 37 % 10_007}" for n in range(ROWS))
    return "\n".join(["shop,month,cents", *rows]).encode()
