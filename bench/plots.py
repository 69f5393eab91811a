"""Bars on a logarithmic scale as SVG: small files, the same for the same figures, readable without colours."""

import math
from xml.sax.saxutils import escape

FONT = "font-family='Helvetica, Arial, sans-serif'"
TEXT, GRID, FRAME = "#222222", "#DDDDDD", "#888888"


def tidy(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def compact(value):
    """For labels that stand close together."""
    return tidy(float(f"{value:.2g}")) if value < 1000 else f"{tidy(float(f'{value / 1000:.2g}'))}k"


class Scale:
    """Of these values, from a power of ten at or below half of the least to one at or above the greatest."""

    def __init__(self, values, begin, end):
        self.low = math.floor(math.log10(min(values) / 2))
        self.high = math.ceil(math.log10(max(values) * 1.05))
        self.begin, self.end = begin, end

    def __call__(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        return [10.0 ** power for power in range(self.low, self.high + 1)]


class Drawing:
    def __init__(self, width, height):
        self.lines = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
                      f"viewBox='0 0 {width} {height}'>", f"<rect width='{width}' height='{height}' fill='white'/>"]

    def text(self, x, y, text, size=12, anchor="start", weight="normal", colour=TEXT, turn=0):
        turned = f" transform='rotate({turn} {x:.1f} {y:.1f})'" if turn else ""
        self.lines.append(f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' text-anchor='{anchor}' "
                          f"font-weight='{weight}' fill='{colour}'{turned}>{escape(text)}</text>")

    def rect(self, x, y, width, height, fill):
        self.lines.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{fill}'/>")

    def line(self, x1, y1, x2, y2, colour, width=1):
        self.lines.append(f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' "
                          f"stroke-width='{width}'/>")

    def save(self, path):
        path.write_text("\n".join([*self.lines, "</svg>"]) + "\n")


def grouped_bars(path, title, subtitle, series, groups):
    """Vertical bars: `series` are (label, colour, [(value, upper end) or None for each group])."""
    width, height = 940, 460
    left, right, top, bottom = 62, 14, 96, 48
    drawing = Drawing(width, height)
    drawing.text(left, 26, title, size=17, weight="bold")
    drawing.text(left, 45, subtitle, size=12)
    x = left
    for label, colour, _ in series:
        drawing.rect(x, 62, 12, 12, colour)
        drawing.text(x + 17, 72, label, size=12)
        x += 34 + 6.7 * len(label)
    found = [number for _, _, values in series for pair in values if pair for number in pair]
    if not found:
        drawing.text(left, height / 2, "no figures", size=14)
        return drawing.save(path)
    scale = Scale(found, height - bottom, top)
    for tick in scale.ticks():
        drawing.line(left, scale(tick), width - right, scale(tick), GRID)
        drawing.text(left - 8, scale(tick) + 4, tidy(tick), anchor="end")
    group = (width - left - right) / len(groups)
    bar = group * 0.86 / len(series)
    for i, name in enumerate(groups):
        begin = left + i * group + group * 0.07
        drawing.text(begin + group * 0.43, height - bottom + 22, name, size=13, anchor="middle")
        for j, (_, colour, values) in enumerate(series):
            x = begin + j * bar
            if not values[i]:
                drawing.text(x + bar / 2, height - bottom - 6, "–", anchor="middle")
                continue
            value, upper = values[i]
            drawing.rect(x + 1, scale(value), bar - 2, height - bottom - scale(value), colour)
            middle = x + bar / 2
            if upper > value:
                drawing.line(middle, scale(value), middle, scale(upper), TEXT, 1.4)
                drawing.line(middle - 4, scale(upper), middle + 4, scale(upper), TEXT, 1.4)
            drawing.text(middle, min(scale(value), scale(max(upper, value))) - 5, compact(value), size=10.5,
                         anchor="middle")
    drawing.line(left, height - bottom, width - right, height - bottom, FRAME)
    drawing.save(path)


def panels(path, groups):
    """Horizontal bars, two panels in a row: (title, subtitle, [(label, colour, value or None)])."""
    columns = min(2, len(groups))
    width = 470 * columns if columns > 1 else 640
    panel, row = width / columns, 26
    heights = [74 + row * max(1, len(bars)) + 26 for _, _, bars in groups]
    rows = [max(heights[i:i + columns]) for i in range(0, len(groups), columns)]
    drawing = Drawing(width, sum(rows) + 8)
    for i, (title, subtitle, bars) in enumerate(groups):
        x, y = (i % columns) * panel, sum(rows[:i // columns])
        _panel(drawing, x, y, panel, row, title, subtitle, bars)
    drawing.save(path)


def _panel(drawing, x, y, width, row, title, subtitle, bars):
    longest = max([len(label) for label, _, _ in bars], default=0)
    left, right, top = x + 22 + 6.6 * longest, x + width - 62, y + 70
    drawing.text(x + 16, y + 28, title, size=15, weight="bold")
    drawing.text(x + 16, y + 46, subtitle, size=11.5)
    found = [value for _, _, value in bars if value]
    if not found:
        drawing.text(x + 16, top + 20, "no figures")
        return
    scale = Scale(found, left, right)
    bottom = top + row * len(bars)
    for tick in scale.ticks():
        drawing.line(scale(tick), top, scale(tick), bottom, GRID)
        drawing.text(scale(tick), bottom + 16, tidy(tick), size=11, anchor="middle")
    for i, (label, colour, value) in enumerate(bars):
        middle = top + row * i + row / 2
        drawing.text(left - 8, middle + 4, label, anchor="end")
        if value:
            drawing.rect(left, middle - 9, scale(value) - left, 18, colour)
            drawing.text(scale(value) + 6, middle + 4, tidy(float(f"{value:.3g}")), size=11.5)
        else:
            drawing.text(left + 6, middle + 4, "–")
    drawing.line(left, top, left, bottom, FRAME)
