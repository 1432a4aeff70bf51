"""Arrays: numpy, whose linear algebra library starts its own threads."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import numpy.typing as npt

STABLE = True
PACKAGES = ("numpy",)
SIDE = 500  # rows of the matrices
SYSTEM = 250  # unknowns
SORTED = 400_000
SAMPLES = 2**18
SMALL = 3_000  # steps, each on arrays of three numbers
SEED = 7


def matrix_product() -> str:
    """Multiply two matrices of 500 x 500, which BLAS does on all cores."""
    one, other = _matrices()
    return f"{np.trace(one @ other):.3f}"


def linear_system() -> str:
    """Solve 250 linear equations, and compute the singular values of their matrix."""
    matrix = _matrices()[0][:SYSTEM, :SYSTEM]
    solution = np.linalg.solve(matrix, np.ones(SYSTEM))
    return f"{solution.sum():.3f} {np.linalg.svd(matrix, compute_uv=False)[0]:.3f}"


def sorted_numbers() -> str:
    """Sort 400,000 numbers, which releases the GIL, and hash them."""
    return hashlib.sha256(np.sort(_numbers()).tobytes()).hexdigest()


def spectrum() -> str:
    """Compute the Fourier transform of 262,144 samples."""
    power = np.abs(np.fft.rfft(_numbers()[:SAMPLES])) ** 2
    return f"{int(np.argmax(power[1:]))} {power.sum():.3e}"


def small_arrays() -> str:
    """Run 3,000 steps on arrays of three numbers: short calls that hold the GIL."""
    position, speed = np.array([1.0, 2.0, 3.0]), np.array([0.5, -0.25, 0.125])
    for _ in range(SMALL):
        position = position + speed * 0.01
        speed = speed * 0.999
    return f"{position.sum():.6f}"


def histogram() -> str:
    """Count 400,000 numbers in 50 ranges, and compute their median."""
    counts, _ = np.histogram(_numbers(), bins=50)
    return f"{counts.tolist()} {np.median(_numbers()):.6f}"


@functools.cache
def _matrices() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    generator = np.random.default_rng(SEED)
    return generator.random((SIDE, SIDE)), generator.random((SIDE, SIDE))


@functools.cache
def _numbers() -> npt.NDArray[np.float64]:
    return np.random.default_rng(SEED).random(SORTED)
