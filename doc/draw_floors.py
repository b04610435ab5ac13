"""Draw the floors of the package, ``images/floors.svg``: imports only go down.

python doc/draw_floors.py
"""

from pathlib import Path
from xml.sax.saxutils import escape

#: From the top: rooms of a floor, each with its folder and what it is for.
FLOORS = [
    [
        ("mixture/", "Gaussian mixtures"),
        ("template/", "images, signals"),
        ("boltzmann/", "binary units"),
        ("mixed_effects/", "curves"),
        ("regression/", "counts, classes"),
    ],
    [("estimators/", "what all estimators share, and StochasticEM")],
    [("loop/", "Algorithm 1: the only loop, its state, monitor, iterates, streams")],
    [
        ("samplers/", "exact draws, Markov transitions"),
        ("solvers/", "one short file for each recursion"),
    ],
    [("e_step/", "expectations over rows, memory of latents, batches, random numbers")],
    [("models/", "the contract"), ("kernels/", "compiled functions, shared")],
]
WIDTH, HEIGHT, GAP, MARGIN, LEFT = 760, 56, 12, 8, 96
COLOURS = ["#cfe3f7", "#d8eed6", "#fbe7c6", "#f3dcef", "#e2e2f4", "#f6d9d5"]
TEXT, QUIET = "#1a1a1a", "#7a7f87"  # the latter can be read on white and on black
FONT = 'font-family="system-ui, sans-serif"'


def text(x, y, content, size, colour=TEXT, extra=""):
    """Return a line of text, centred at x."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="{size}" '
        f'fill="{colour}" {extra or FONT}>{escape(content)}</text>'
    )


def drawing():
    """Return the picture as SVG."""
    height = 2 * MARGIN + len(FLOORS) * (HEIGHT + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'role="img">',
        "<title>The floors of sktem: imports only go down</title>",
    ]
    mono = 'font-family="ui-monospace, monospace" font-weight="600"'
    for floor, rooms in enumerate(FLOORS):
        y = MARGIN + floor * (HEIGHT + GAP)
        width = (WIDTH - LEFT - MARGIN - (len(rooms) - 1) * GAP) / len(rooms)
        for place, (name, purpose) in enumerate(rooms):
            x = LEFT + place * (width + GAP)
            parts.append(
                f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="6" '
                f'fill="{COLOURS[floor]}" stroke="{QUIET}"/>'
            )
            size = 13 if len(rooms) > 2 else 15
            parts.append(text(x + width / 2, y + 24, name, size, extra=mono))
            parts.append(text(x + width / 2, y + 43, purpose, size - 1))
    middle = MARGIN + HEIGHT + GAP
    low = height - MARGIN
    line = f'stroke="{QUIET}" stroke-width="2" fill="none"'
    parts += [
        text(LEFT / 2 - 4, MARGIN + 24, "families", 13, QUIET),
        text(LEFT / 2 - 4, MARGIN + 41, "side by side", 12, QUIET),
        text(LEFT / 2 - 4, middle + 24, "core", 13, QUIET),
        text(LEFT / 2 - 4, middle + 52, "imports", 12, QUIET),
        text(LEFT / 2 - 4, middle + 68, "go down", 12, QUIET),
        f'<path d="M{LEFT / 2 - 4:g} {middle + 82} V{low - 2}" {line}/>',
        f'<path d="M{LEFT / 2 - 11:g} {low - 11} l7 9 l7 -9" {line}/>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    path = Path(__file__).resolve().parent / "images" / "floors.svg"
    path.write_text(drawing(), encoding="utf-8")
    print(path)
