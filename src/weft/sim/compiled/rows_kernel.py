"""Rows: an array of the engine as compiled code sees it, the bare address of its first row.

numba's own arrays carry seven words along, and every access to one is typed, lowered and optimised with its length, its
strides and the question whether the index is negative. Most of the compilation time used to go there.
NUMBA_BOUNDSCHECK=1 takes the length along and checks every index.

Integers are stored in as few bytes as they need and are 64 bits wide wherever compiled code sees them. Otherwise a
function that is called with narrow ones here and wide ones there would be compiled twice.

This is written with numba's low-level extension API: what `numba.extending` offers, the class that its
`infer_getattr` asks for, and `cgutils`.
"""

import operator

from numba import config, from_dtype, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    type_callable,
)


class Row(types.Type):
    """The type of one record: its bare address."""

    def __init__(self, name, dtype):
        self.fields = {field: (from_dtype(kind), offset) for field, (kind, offset, *_) in dtype.fields.items()}
        super().__init__(name=f"Row({name})")


class Rows(types.Type):
    """The type of an array of records or numbers."""

    def __init__(self, name, dtype):
        self.row = Row(name, dtype) if dtype.names else from_dtype(dtype)
        self.size = dtype.itemsize
        super().__init__(name=f"Rows({name})")


register_model(Row)(models.OpaqueModel)


@register_model(Rows)
class _RowsModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        members = [("data", types.voidptr)]
        if config.BOUNDSCHECK:
            members.append(("length", types.int64))
        super().__init__(dmm, fe_type, members)


def _wide(kind):
    """The type that compiled code sees of a number in memory."""
    return types.int64 if isinstance(kind, types.Integer) else kind


def _load(context, builder, kind, address):
    address = builder.bitcast(address, context.get_data_type(kind).as_pointer())
    return context.cast(builder, context.unpack_value(builder, kind, address, 1), kind, _wide(kind))


def _store(context, builder, kind, address, value):
    address = builder.bitcast(address, context.get_data_type(kind).as_pointer())
    context.pack_value(builder, kind, context.cast(builder, value, _wide(kind), kind), address, 1)


@infer_getattr
class _Fields(AttributeTemplate):
    """What numba asks for the type of a field; written or read, it is the wide one."""

    key = Row

    def generic_resolve(self, row, field):
        return _wide(row.fields[field][0]) if field in row.fields else None


def _field(builder, row, value, field):
    kind, offset = row.fields[field]
    return kind, builder.gep(value, [cgutils.intp_t(offset)], inbounds=True)


@lower_getattr_generic(Row)
def _get_field(context, builder, row, value, field):
    return _load(context, builder, *_field(builder, row, value, field))


@lower_setattr_generic(Row)
def _set_field(context, builder, sig, args, field):
    row, value = args
    _store(context, builder, *_field(builder, sig.args[0], row, field), value)


@type_callable(operator.getitem)
def _type_get(context):
    def typer(rows, index):
        if isinstance(rows, Rows) and isinstance(index, types.Integer):
            return _wide(rows.row)(rows, types.int64)
        return None

    return typer


@type_callable(operator.setitem)
def _type_set(context):
    def typer(rows, index, value):
        if isinstance(rows, Rows) and isinstance(index, types.Integer):
            return types.none(rows, types.int64, _wide(rows.row))
        return None

    return typer


def _address(context, builder, rows, value, index):
    view = cgutils.create_struct_proxy(rows)(context, builder, value=value)
    if config.BOUNDSCHECK:  # as unsigned numbers, negative indices are too large as well
        with builder.if_then(builder.icmp_unsigned(">=", index, view.length), likely=False):
            context.call_conv.return_user_exc(builder, IndexError, (f"no such row of {rows!s:.60}",))
    offset = builder.mul(index, index.type(rows.size), flags=["nsw"])
    return builder.gep(view.data, [offset], inbounds=True)


@lower_builtin(operator.getitem, Rows, types.Integer)
def _get_row(context, builder, sig, args):
    address = _address(context, builder, sig.args[0], *args)
    row = sig.args[0].row
    return address if isinstance(row, Row) else _load(context, builder, row, address)


@lower_builtin(operator.setitem, Rows, types.Integer, types.Any)
def _set_row(context, builder, sig, args):
    rows, index, value = args
    _store(context, builder, sig.args[0].row, _address(context, builder, sig.args[0], rows, index), value)
    return context.get_dummy_value()


def _word(builder, table, at):
    """A word of the table of addresses: it does not change while compiled code runs, so it need not be read twice."""
    word = builder.load(builder.inttoptr(builder.add(table, table.type(8 * at)), table.type.as_pointer()))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def reader(name, at, dtype):
    """A function of compiled code: the array of a name, whose address is the at-th word of the table that lies at E."""
    kind = Rows(name, dtype)

    def rows(typing_context, E):
        def codegen(context, builder, sig, args):
            view = cgutils.create_struct_proxy(kind)(context, builder)
            view.data = builder.inttoptr(_word(builder, args[0], at), cgutils.voidptr_t)
            if config.BOUNDSCHECK:
                view.length = _word(builder, args[0], at + 1)
            return view._getvalue()

        return kind(types.int64), codegen

    return intrinsic(rows)


def one(name, at, dtype):
    """A function of compiled code: the only record of an array, whose address is the at-th word of the table."""
    record = Row(name, dtype)

    def row(typing_context, E):
        def codegen(context, builder, sig, args):
            return builder.inttoptr(_word(builder, args[0], at), cgutils.voidptr_t)

        return record(types.int64), codegen

    return intrinsic(row)


def word(at):
    """A function of compiled code: the at-th word of the table that lies at E."""

    def value(typing_context, E):
        return types.int64(types.int64), lambda context, builder, sig, args: _word(builder, args[0], at)

    return intrinsic(value)
