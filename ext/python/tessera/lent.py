"""ndarrays whose memory one call of SQL fills or reads."""
from __future__ import annotations

import ctypes

from .connections import functions_of

__all__ = ["Lent", "described_block"]


class Lent:
    """Memory of an ndarray that one call of SQL fills or reads."""

    def __init__(self, connection, block, header):
        self._functions, self._block, self._token = functions_of(connection), block, ctypes.create_string_buffer(33)
        if not self._functions.lend(block.ctypes.data, block.nbytes, header.encode(), self._token):
            raise MemoryError("a block")
        self.token = self._token.value.decode()

    def __enter__(self):
        return self.token

    def __exit__(self, *_):
        self._functions.take_back(self._token)


def described_block(block):
    """Returns an ndarray whose memory can be lent, and its header."""
    import numpy
    block = numpy.asarray(block)
    if not block.flags.aligned or not (block.flags.c_contiguous or block.flags.f_contiguous):
        block = numpy.ascontiguousarray(block)
    if block.dtype.hasobject or block.dtype.names:
        raise TypeError(f"an ndarray of {block.dtype} has no form that an array could hold")
    header = numpy.lib.format.header_data_from_array_1_0(block)
    shape = ", ".join(str(n) for n in header["shape"]) + ("," if block.ndim == 1 else "")
    return block, f"{{'descr': '{header['descr']}', 'fortran_order': {header['fortran_order']}, 'shape': ({shape}), }}"
