"""Reads the memory of another process: tests look there for keys that should be gone."""


def memory_of(process):
    """Yields the writable memory of another process in pieces, without AddressSanitizer's shadow memory, which is too large."""
    with open(f"/proc/{process}/maps", encoding="utf-8") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(n, 16) for n in place.split("-"))
            if not rights.startswith("rw") or end - start > 1 << 32:
                continue
            for at in range(start, end, 1 << 24):
                try:
                    memory.seek(at)
                    yield memory.read(min(end - at, 1 << 24))
                except (OSError, ValueError):   # the region is gone or cannot be read
                    pass
