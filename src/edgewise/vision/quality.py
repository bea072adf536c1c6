"""What can be measured of a picture before anybody reads it: contrast and sharpness."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Pixels = NDArray[numpy.uint8]


def measure_quality(pixels: Pixels) -> dict[str, float]:
    """`contrast`: how far dark and light are apart. `sharpness`: how steep edges are.

    `noise`: what differs from pixel to pixel where nothing is drawn. All on a scale of 0 to 1.
    """
    import numpy as np  # noqa: PLC0415 - only pictures need it

    grey = pixels.astype(np.float32).mean(axis=2) / 255.0
    if min(grey.shape) < 4:
        return {"contrast": 0.0, "sharpness": 0.0, "noise": 0.0}
    across = np.abs(np.diff(grey, axis=1))
    low, high = np.percentile(grey, (0.5, 99.5))
    return {
        "contrast": float(high - low),
        "sharpness": float(np.percentile(across, 99.5)),
        "noise": float(np.median(across)),
    }
