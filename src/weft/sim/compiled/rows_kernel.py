"""Rows: an array of the engine as compiled code sees it, the bare address of its first row.

numba's own arrays carry seven words along, and every access to one is typed, lowered and optimised with its length, its
strides and the question whether the index is negative. Most of the compilation time used to go there.
NUMBA_BOUNDSCHECK=1 takes the length along and checks every index.
"""

import operator

import numpy as np
from numba import config, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np import numpy_support


class Rows(types.Type):
    """The type of an array of rows (records) or numbers."""

    def __init__(self, row):
        self.row = row
        super().__init__(name=f"Rows({row})")


def rows_of(dtype):
    """Rows of a numpy dtype."""
    return Rows(numpy_support.from_dtype(np.dtype(dtype)))


@register_model(Rows)
class _RowsModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        members = [("data", types.voidptr)]
        if config.BOUNDSCHECK:
            members.append(("length", types.int64))
        super().__init__(dmm, fe_type, members)


@infer_global(operator.getitem)
class _GetRow(AbstractTemplate):
    def generic(self, args, kws):
        rows, index = args
        if isinstance(rows, Rows) and isinstance(index, types.Integer):
            return signature(rows.row, rows, types.int64)
        return None


@infer_global(operator.setitem)
class _SetRow(AbstractTemplate):
    def generic(self, args, kws):
        rows, index, _ = args
        if isinstance(rows, Rows) and isinstance(index, types.Integer):
            return signature(types.none, rows, types.int64, rows.row)
        return None


def _address(context, builder, rows, value, index):
    data = context.get_data_type(rows.row)
    view = cgutils.create_struct_proxy(rows)(context, builder, value=value)
    if config.BOUNDSCHECK:  # as unsigned numbers, negative indices are too large as well
        with builder.if_then(builder.icmp_unsigned(">=", index, view.length), likely=False):
            context.call_conv.return_user_exc(builder, IndexError, (f"no such row of {rows!s:.60}",))
    pointer = view.data
    size = rows.row.size if isinstance(rows.row, types.Record) else rows.row.bitwidth // 8
    offset = builder.mul(index, index.type(size), flags=["nsw"])
    return builder.bitcast(builder.gep(pointer, [offset], inbounds=True), data.as_pointer())


@lower_builtin(operator.getitem, Rows, types.Integer)
def _get_row(context, builder, sig, args):
    address = _address(context, builder, sig.args[0], *args)
    if isinstance(sig.return_type, types.Record):
        return builder.bitcast(address, context.get_value_type(sig.return_type))
    return context.unpack_value(builder, sig.return_type, address)


@lower_builtin(operator.setitem, Rows, types.Integer, types.Any)
def _set_row(context, builder, sig, args):
    pointer, index, value = args
    address = _address(context, builder, sig.args[0], pointer, index)
    context.pack_value(builder, sig.args[2], value, address)
    return context.get_dummy_value()


def _word(builder, table, at):
    """A word of the table of addresses: it does not change while compiled code runs, so it need not be read twice."""
    word = builder.load(builder.inttoptr(builder.add(table, table.type(8 * at)), table.type.as_pointer()))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def reader(at, dtype):
    """A function of compiled code: the array whose address is the at-th word of the table that lies at E."""
    row = rows_of(dtype)

    def rows(typing_context, E):
        def codegen(context, builder, sig, args):
            view = cgutils.create_struct_proxy(row)(context, builder)
            view.data = builder.inttoptr(_word(builder, args[0], at), cgutils.voidptr_t)
            if config.BOUNDSCHECK:
                view.length = _word(builder, args[0], at + 1)
            return view._getvalue()

        return row(types.int64), codegen

    return intrinsic(rows)


def one(at, dtype):
    """A function of compiled code: the only record of the array whose address is the at-th word of the table."""
    record = numpy_support.from_dtype(np.dtype(dtype))

    def row(typing_context, E):
        def codegen(context, builder, sig, args):
            return builder.inttoptr(_word(builder, args[0], at), context.get_value_type(record))

        return record(types.int64), codegen

    return intrinsic(row)


def word(at):
    """A function of compiled code: the at-th word of the table that lies at E."""

    def value(typing_context, E):
        return types.int64(types.int64), lambda context, builder, sig, args: _word(builder, args[0], at)

    return intrinsic(value)
