"""How functions are compiled that only compiled functions call: they are linked into their callers, nothing else.

numba would make machine code of each, keep it on disk, and run the passes that look for closures, literals and array
expressions, of which kernels have none. Nobody asks for that machine code: without all this compilation takes a fifth
less time, and what callers get to see is the same.
"""

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode


class _Linked(JITCodeLibrary):
    """Optimised code that callers link; the engine that turns code into machine code never sees it."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


def _no_entry(library, fndesc, env):
    """What a dispatcher wants to hold: a function without an address, as for any that lacks a wrapper for Python."""
    name = fndesc.qualname.split(".")[-1]
    return _dynfunc.make_function(fndesc.lookup_module(), name, f"only linked: {name}", 0, env, (library,))


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lower(NativeLowering):
    _name = "weft_lowering_to_link"

    def run_pass(self, state):
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx.get_executable = _no_entry  # this function's own copy of the target
        return super().run_pass(state)


class LinkedOnly(CompilerBase):
    """numba's pipeline for compiled code, without what kernels have no use for."""

    def define_pipelines(self):
        """One pipeline, from byte code to a library to link."""
        manager = PassManager("linked")
        for step in (
            TranslateByteCode, FixupArgs, IRProcessing, ReconstructSSA, NopythonTypeInference, PreLowerStripPhis,
            IRLegalization, AnnotateTypes, _Lower, NoPythonBackend,
        ):  # fmt: skip
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]
