# SPDX-License-Identifier: GPL-2.0
"""Pictures as SVG, drawn here: the same figures give the same bytes, and no browser is needed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# One for each line of a plot; more repeat.
COLORS = (
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
    "#7f7f7f", "#17becf", "#8c564b", "#e377c2", "#bcbd22",
)  # fmt: skip

_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 170, 34, 46
_ROW = 16
# Of a letter in the names of rows, at most.
_LETTER = 6


@dataclass(frozen=True)
class Line:
    """Points in the order in which a line joins them.

    Attributes:
        label: in the legend.
        points: x and y.
        joined: draw the line, and not only the marks.
    """

    label: str
    points: Sequence[tuple[float, float]]
    joined: bool = True


@dataclass(frozen=True)
class Plot:
    """A picture.

    Attributes:
        name: of its file, without suffix.
        title: above it.
        x, y: titles of the axes, with units.
        lines: what is drawn.
        log_x, log_y: logarithmic axes, for positive values.
        categories: names of the rows; y is then the number of a row.
    """

    name: str
    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    categories: Sequence[str] = ()


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Return round values between two others."""
    if log:
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
        found = [x for x in found if low <= x <= high]
        return found if len(found) <= 8 else [x for x in found if f"{x:e}".startswith("1")]
    rough = (high - low) / 5
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough)
    first = math.ceil(low / step)
    return [step * n for n in range(first, math.floor(high / step) + 1)]


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool
    begin: float
    end: float

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)


def _axis(values: Sequence[float], log: bool, begin: float, end: float) -> _Axis:
    known = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(known), max(known)
    if log:
        return _Axis(low / 1.15, high * 1.15, True, begin, end)
    margin = (high - low) * 0.05 or 1.0
    return _Axis(min(0.0, low) if low < margin * 4 else low - margin, high + margin, False, begin,
                 end)  # fmt: skip


def _number(value: float) -> str:
    return f"{value:g}"


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _frame(plot: Plot, x: _Axis, y: _Axis, width: int, height: int) -> list[str]:
    bottom, right = height - _BOTTOM, width - _RIGHT
    found = [_text(x.begin, _TOP - 14, plot.title, "start", ' font-weight="bold"')]
    for value in _ticks(x.low, x.high, x.log):
        at = x.place(value)
        found.append(f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="#ddd"/>')
        found.append(_text(at, bottom + 16, _number(value)))
    if plot.categories:
        for number, name in enumerate(plot.categories):
            at = y.place(number)
            found.append(f'<path d="M{x.begin:.1f} {at:.1f}H{right}" stroke="#eee"/>')
            found.append(_text(x.begin - 6, at + 4, name, "end"))
    else:
        for value in _ticks(y.low, y.high, y.log):
            at = y.place(value)
            found.append(f'<path d="M{x.begin:.1f} {at:.1f}H{right}" stroke="#ddd"/>')
            found.append(_text(x.begin - 6, at + 4, _number(value), "end"))
        middle = (_TOP + bottom) / 2
        turn = f' transform="rotate(-90 14 {middle:.1f})"'
        found.append(_text(14, middle, plot.y, "middle", turn))
    found.append(_text((x.begin + right) / 2, height - 10, plot.x))
    return found


# In the first bytes of each picture.
MARK = (
    'font-family="sans-serif" font-size="11"><!-- SPDX-License-Identifier: GPL-2.0 -->'
    f'<rect width="{_WIDTH}"'
)


def svg(plot: Plot) -> str:
    """Return a plot as an SVG document."""
    points = [point for line in plot.lines for point in line.points]
    rows = len(plot.categories)
    longest = max(map(len, plot.categories), default=0)
    left = _LEFT + (max(100, _LETTER * longest - _LEFT) if rows else 0)
    height = _TOP + _BOTTOM + rows * _ROW if rows else _HEIGHT
    x = _axis([p[0] for p in points], plot.log_x, left, _WIDTH - _RIGHT)
    if rows:
        y = _Axis(-0.5, rows - 0.5, False, _TOP, height - _BOTTOM)
    else:
        y = _axis([p[1] for p in points], plot.log_y, height - _BOTTOM, _TOP)
    found = _frame(plot, x, y, _WIDTH, height)
    for number, line in enumerate(plot.lines):
        color = COLORS[number % len(COLORS)]
        places = [(x.place(a), y.place(b)) for a, b in line.points]
        if line.joined and len(places) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            found.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')
        found += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in places]
        at = _TOP + 8 + 16 * number
        found.append(f'<circle cx="{_WIDTH - _RIGHT + 14}" cy="{at}" r="4" fill="{color}"/>')
        found.append(_text(_WIDTH - _RIGHT + 22, at + 4, line.label, "start"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" {MARK} height="{height}" fill="#fff"/>'
    )
    return head + "\n" + "\n".join(found) + "\n</svg>\n"
