"""What an Array shows of itself: dimensions, labels, types, tiles, size and commits, as text and as HTML with a picture of its domain."""
from __future__ import annotations

import html
import json

__all__ = ["card", "html_card"]


def _about(array):
    """Returns what the card says: a title, lines of facts, and a table of fields. The number of cells is that of the fragments, which later commits may have
    overwritten or deleted: only len() counts."""
    kind, cells, size, fragments, once = array._about("kind, cells, bytes, fragments, fragments <= 1 AND first_write IS last_write", "tessera_array")[0]
    fields = array._about("role, name, datatype, domain, tile, nullable, filters", "tessera_schema")
    bounds = array.bounds
    rows = []
    for role, name, datatype, domain, tile, nullable, filters in fields:
        if role == "dimension":
            written = bounds.get(name)
            says = f"{written[0]} .. {written[1]}" if written else "nothing written"
            whole = json.loads(domain) if domain else None
            if whole and written and list(written) != whole:
                says += f" of {whole[0]} .. {whole[1]}"
            rows.append((role, name, datatype, says + (f", tiles of {tile}" if tile not in (None, "") else "")))
        elif role == "label":
            rows.append((role, name, datatype, f"of {json.loads(domain)}"))
        else:
            rows.append((role, name, datatype, ", ".join(filter(None, ("may be NULL" if nullable else "", filters)))))
    facts = [f"{kind}", f"{'' if once else 'at most '}{cells:,} cells" if cells is not None else "", _size(size), f"{fragments} fragment{'s' if fragments != 1 else ''}"]
    return ", ".join(filter(None, facts)), rows


def _size(size):
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size} bytes"
        size /= 1000
    return ""


def _part(array):
    """The box and the options of the part that the Array is, as the calls that make it."""
    said = [f"{name}={tuple(ends) if isinstance(ends, list) else ends.get('in') if isinstance(ends, dict) else ends!r}" for name, ends in array._box.items()]
    calls = [f"sel({', '.join(said)})"] if said else []
    calls += [f"where({name!r}, {op!r}, {value!r})" for name, op, value in array._options.get("where", ())]
    calls += [f"select({', '.join(map(repr, array._options['columns']))})"] if "columns" in array._options else []
    return calls


def _next(array, rows):
    """A line that shows what one may do with it."""
    attribute = next((name for role, name, *_ in rows if role == "attribute"), None)
    dim = next((name for wanted in ("label", "dimension") for role, name, *_ in rows if role == wanted), None)
    reads = f'a["{attribute}"].numpy()' if array.kind == "dense" and attribute else "a.to_pandas()"
    return f'{reads}   a.sel({dim}=(low, high))   tessera.sql("SELECT ... FROM a")' if dim and dim.isidentifier() else reads


def card(array):
    title, rows = _about(array)
    widths = [max((len(str(row[i])) for row in rows), default=0) for i in range(3)]
    lines = [f"<tessera.Array {array.path!r}: {title}>"]
    lines += [f"  part: {'.'.join(_part(array))}"] if _part(array) else []
    lines += ["  " + "  ".join(f"{str(cell):<{width}}" for cell, width in zip(row, widths)) + f"  {row[3]}" for row in rows]
    return "\n".join(line.rstrip() for line in lines + ["  " + _next(array, rows)])


def html_card(array):
    title, rows = _about(array)
    body = "".join("<tr>" + "".join(f"<td style='text-align:left'>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    part = f"<p>part: <code>{html.escape('.'.join(_part(array)))}</code></p>" if _part(array) else ""
    return (f"<div style='display:flex;gap:2em;align-items:flex-start'><div><p><b>{html.escape(array.path)}</b>: {html.escape(title)}</p>{part}<table>{body}</table>"
            f"<p><code>{html.escape(_next(array, rows))}</code></p></div>{_picture(array)}</div>")


def _picture(array, side=160):
    """An SVG of the first two dimensions: the domain, its tiles, and what was written."""
    axes = []
    for name, domain, tile in array._about("name, domain, tile", "tessera_schema", "role = 'dimension'")[:2]:
        ends, written = json.loads(domain) if domain else None, array.bounds.get(name)
        if not written or any(not isinstance(end, (int, float)) for end in (*(ends or ()), *written)):
            return ""
        low, high = ends if ends and ends[1] - ends[0] < 4 * (written[1] - written[0] + 1) else written   # a domain without an end in practice would hide the cells
        axes.append((name, low, high + (isinstance(high, int)), written[0], written[1] + (isinstance(written[1], int)), tile))
    if not axes:
        return ""
    axes = axes if len(axes) == 2 else [("", 0, 1, 0, 1, None), *axes]
    (y, y0, y1, yl, yh, y_tile), (x, x0, x1, xl, xh, x_tile) = axes
    ratio = max(0.2, min(5, (y1 - y0) / (x1 - x0) if x1 > x0 and y1 > y0 else 1)) if y else 0.2
    wide, high = (side, side * ratio) if ratio <= 1 else (side / ratio, side)
    across, down = (lambda v: wide * (v - x0) / ((x1 - x0) or 1)), (lambda v: high * (v - y0) / ((y1 - y0) or 1))
    lines = "".join(f"<line x1='{across(v):.1f}' x2='{across(v):.1f}' y1='0' y2='{high:.1f}'/>" for v in _edges(x0, x1, x_tile))
    lines += "".join(f"<line y1='{down(v):.1f}' y2='{down(v):.1f}' x1='0' x2='{wide:.1f}'/>" for v in _edges(y0, y1, y_tile))
    return (f"<svg width='{wide + 40:.0f}' height='{high + 24:.0f}'><g transform='translate(36,2)'>"
            f"<rect x='{across(xl):.1f}' y='{down(yl):.1f}' width='{across(xh) - across(xl):.1f}' height='{down(yh) - down(yl):.1f}' fill='#8ecae6'/>"
            f"<g stroke='#023047' stroke-opacity='.3'>{lines}</g><rect width='{wide:.1f}' height='{high:.1f}' fill='none' stroke='#023047'/>"
            f"<text x='{wide / 2:.0f}' y='{high + 16:.0f}' font-size='11' text-anchor='middle'>{html.escape(x)}</text>"
            f"<text x='-4' y='{high / 2:.0f}' font-size='11' text-anchor='end'>{html.escape(y)}</text></g></svg>")


def _edges(low, high, tile):
    try:
        step = float(tile)
    except (TypeError, ValueError):
        return []
    count = (high - low) / step if step > 0 else 0
    return [low + step * i for i in range(1, int(count) + 1) if low + step * i < high] if 1 < count <= 64 else []
