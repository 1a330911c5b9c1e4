"""The event queue: a binary heap on time, with the position of every event known so that it can move."""

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.memory_kernel import inner


@inner()
def heap_up(E, i):
    """Move the event at position i towards the front while it is earlier than its parent."""
    keys, ids, where = m.heap_key(E), m.heap_id(E), m.where(E)
    key, ident = keys[i], ids[i]
    while i > 0:
        parent = (i - 1) >> 1
        if keys[parent] <= key:
            break
        keys[i] = keys[parent]
        ids[i] = ids[parent]
        where[ids[i]] = i
        i = parent
    keys[i] = key
    ids[i] = ident
    where[ident] = i


@inner()
def heap_down(E, i):
    """Move the event at position i towards the back while a child is earlier."""
    keys, ids, where = m.heap_key(E), m.heap_id(E), m.where(E)
    n = m.scalars(E).n_heap
    key, ident = keys[i], ids[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        if key <= keys[child]:
            break
        keys[i] = keys[child]
        ids[i] = ids[child]
        where[ids[i]] = i
        i = child
    keys[i] = key
    ids[i] = ident
    where[ident] = i


@inner()
def heap_set(E, ident, key):
    """Put an event at a time, or move it there."""
    i = m.where(E)[ident]
    if i < 0:
        i = m.scalars(E).n_heap
        m.scalars(E).n_heap = i + 1
        m.heap_key(E)[i] = key
        m.heap_id(E)[i] = ident
        heap_up(E, i)
        return
    old = m.heap_key(E)[i]
    m.heap_key(E)[i] = key
    if key < old:
        heap_up(E, i)
    elif key > old:
        heap_down(E, i)


@inner()
def heap_drop(E, ident):
    """Take an event out, if it is in."""
    i = m.where(E)[ident]
    if i < 0:
        return
    m.where(E)[ident] = -1
    n = m.scalars(E).n_heap - 1
    m.scalars(E).n_heap = n
    if i == n:
        return
    old = m.heap_key(E)[i]
    m.heap_key(E)[i] = m.heap_key(E)[n]
    m.heap_id(E)[i] = m.heap_id(E)[n]
    m.where(E)[m.heap_id(E)[i]] = i
    if m.heap_key(E)[i] < old:
        heap_up(E, i)
    else:
        heap_down(E, i)
