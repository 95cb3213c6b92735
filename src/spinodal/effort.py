"""XLA's options for programs that are not worth its full effort, on a CPU.

At little effort a program compiles in a sixth of the time, and can run ten times as long. At less effort it compiles in half of the time,
and runs a quarter longer. Each is cut into few pieces, since several are compiled at a time: XLA's default of 32 takes a quarter more of
the CPU's time.
"""

LITTLE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
LESS = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 2}
