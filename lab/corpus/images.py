"""Images: Pillow, and QR codes by segno."""

from __future__ import annotations

import functools
import io

import segno
from PIL import Image, ImageDraw, ImageFilter

STABLE = True
PACKAGES = ("PIL", "segno")
PHOTO = (1600, 1200)  # pixels
THUMBNAIL = (200, 150)
BLURRED = (800, 600)
RADIUS = 8
CHART = (800, 400)
POINTS = 1_500
LINK = "https://example.org/orders/1234567890?token=" + "0123456789abcdef" * 16


def thumbnail() -> bytes:
    """Decode a JPEG of 1600 x 1200, scale it to 200 x 150, and encode it."""
    with Image.open(io.BytesIO(_photo())) as image:
        image.thumbnail(THUMBNAIL, Image.Resampling.LANCZOS, reducing_gap=None)
        return _encoded(image, "JPEG")


def blurred_png() -> bytes:
    """Decode and halve a JPEG, blur it, and encode it as PNG."""
    with Image.open(io.BytesIO(_photo())) as image:
        smaller = image.resize(BLURRED, Image.Resampling.BOX)
        return _encoded(smaller.filter(ImageFilter.GaussianBlur(RADIUS)), "PNG")


def line_chart() -> bytes:
    """Draw 1,500 lines and marks: many short calls that hold the GIL."""
    image = Image.new("RGB", CHART, "white")
    draw = ImageDraw.Draw(image)
    before = (0, 0)
    for n in range(POINTS):
        point = (n * CHART[0] // POINTS, n * n * 7919 % CHART[1])
        draw.line((*before, *point), fill=(n % 256, 80, 160), width=2)
        draw.ellipse((point[0] - 2, point[1] - 2, point[0] + 2, point[1] + 2), outline="black")
        before = point
    return _encoded(image, "PNG")


def qr_code() -> bytes:
    """Create a QR code of 300 characters in pure Python."""
    out = io.BytesIO()
    segno.make(LINK, micro=False, error="m").save(out, kind="png", scale=4)
    return out.getvalue()


def rotated_jpeg() -> bytes:
    """Decode a JPEG of 1600 x 1200, rotate it by 90 degrees, and encode it."""
    with Image.open(io.BytesIO(_photo())) as image:
        return _encoded(image.transpose(Image.Transpose.ROTATE_90), "JPEG")


def watermarked_crop() -> bytes:
    """Decode a JPEG, crop it to 800 x 600, draw a text on it, and encode it as WebP."""
    with Image.open(io.BytesIO(_photo())) as image:
        part = image.crop((400, 300, 400 + BLURRED[0], 300 + BLURRED[1]))
    ImageDraw.Draw(part).text((20, 20), "example.org", fill="white")
    return _encoded(part, "WEBP")


def _encoded(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


@functools.cache
def _photo() -> bytes:
    image = Image.effect_mandelbrot(PHOTO, (-2.0, -1.2, 0.8, 1.2), 60)
    return _encoded(image.convert("RGB"), "JPEG")
