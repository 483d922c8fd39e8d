from __future__ import annotations

from kforecast.bench.languages.cuda.ptx import entries_of, precision_labels, ptx_mix

PTX = """
.version 9.0
.target sm_90
.extern .func  (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0) ;
.func helper(
	.param .b64 p
)
{
	ret;
}
.visible .entry _Z1aPf(
	.param .u64 _Z1aPf_param_0
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<9>;
	.shared .align 4 .b8 part[1024];
	.loc	1 7 3
	ld.param.u64 	%rd1, [_Z1aPf_param_0];
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd1];
	ld.global.L1::no_allocate.f32 %f5, [%rd1];
$L__BB0_1:
	@%p1 st.shared.f32 	[part], %f1;
	@!%p1 bra 	$L__BB0_1;
	bar.sync 	0;
	fma.rn.ftz.f32 	%f5, %f1, %f2, %f3;
	fma.rn.f16x2 %r1, %r2, %r3, %r4;
	ex2.approx.ftz.f32 	%f6, %f5;
	div.full.f32 	%f7, %f6, %f5;
	// begin inline asm
	{ mov.b32 %r1, %r2; cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; }
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r1, %r2}], [%r3];
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};
	wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0;
	wgmma.fence.sync.aligned;
	// end inline asm
	red.global.add.f32 	[%rd1], %f7;
	atom.add.u32 	%r1, [%rd1], 1;
	{
	.param .b64 param0;
	st.param.b64 	[param0], %rd1;
	call.uni (retval0),
	vprintf,
	(
	param0,
	param1
	);
	}
	ret;
}
.visible .entry b()
{
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1},{%r1},{%r5},{%f1};
	wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};
	rcp.approx.ftz.f32 %f1, %f2;
	ret;
}
"""


def test_classes_keep_what_decides_the_cost() -> None:
    mix = ptx_mix(PTX, {"_Z1aPf"})
    assert mix == {
        "mov": 1, "ld.param": 1, "ld.global.nc.v4": 1, "ld.global": 1, "st.shared": 1, "bra": 1, "bar.sync": 1,
        "fma.f32": 1, "fma.f16x2": 1, "ex2": 1, "div.f32": 1, "cp.async": 1, "cp.async.commit_group": 1,
        "cp.async.bulk.tensor": 1, "mma.bf16": 1, "wgmma.f16": 1, "wgmma.fence": 1, "red.global.add": 1,
        "atom.generic.add": 1, "st.param": 1, "call": 1, "ret": 1,
    }  # fmt: skip


def test_all_functions_without_a_choice_and_the_entries() -> None:
    assert ptx_mix(PTX)["ret"] == 3
    assert entries_of(PTX) == ["_Z1aPf", "b"]
    assert ptx_mix(PTX, set()) == {}


def test_precision_labels_name_operands_and_approximations() -> None:
    assert precision_labels(PTX) == ("approximate-math", "mma-bf16", "mma-f16", "mma-tf32")
    assert precision_labels(PTX[: PTX.index(".visible .entry b")]) == ("mma-bf16", "mma-f16")
    assert precision_labels("") == ()
