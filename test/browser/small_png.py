"""Makes a PNG file of a browser small: at most 256 colours. usage: small_png.py FILE"""
import collections
import struct
import sys
import zlib


def chunks(data):
    at = 8
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        yield data[at + 4:at + 8], data[at + 8:at + 8 + size]
        at += 12 + size


def unfilter(raw, width, height, channels):
    """The rows of a picture with 8 bits a channel."""
    stride, before, rows = width * channels, bytearray(width * channels), []
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left, up, corner = row[i - channels] if i >= channels else 0, before[i], before[i - channels] if i >= channels else 0
            if kind == 1:
                row[i] = row[i] + left & 255
            elif kind == 2:
                row[i] = row[i] + up & 255
            elif kind == 3:
                row[i] = row[i] + (left + up) // 2 & 255
            elif kind == 4:
                row[i] = row[i] + paeth(left, up, corner) & 255
        rows.append(row)
        before = row
    return rows


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def make_small(path):
    with open(path, "rb") as f:
        data = f.read()
    parts = list(chunks(data))
    width, height, depth, colour = struct.unpack(">IIBB", parts[0][1][:10])
    channels = {2: 3, 6: 4}[colour]
    rows = unfilter(zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT")), width, height, channels)
    pixels = [[(r[i] & 248, r[i + 1] & 248, r[i + 2] & 248) for i in range(0, len(r), channels)] for r in rows]
    count = collections.Counter(p for row in pixels for p in row)
    palette = [p for p, _ in count.most_common(256)]
    index = {p: i for i, p in enumerate(palette)}

    def nearest(p):
        if p not in index:
            index[p] = min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(p, palette[i])))
        return index[p]

    raw = b"".join(b"\0" + bytes(nearest(p) for p in row) for row in pixels)
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
                + chunk(b"PLTE", b"".join(bytes((r | 4, g | 4, b | 4)) for r, g, b in palette)) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    make_small(sys.argv[1])
