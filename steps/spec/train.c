/* The table of `train`, the launcher of ranks, which also runs every step with `distributed`. */
#include "steps/spec/tables.h"

static const struct spec_option options[] = {
	{ "framework", SPEC_CHOICE, "\"torch\"", .engine = true,
	  .choices = "torch|tensorflow|jax|mpi|horovod|ps",
	  .help = "whose rendezvous the ranks use; mpi and horovod start them by Open MPI's "
		  "mpirun" },
	{ "nodes", SPEC_INT, "1", .engine = true, .min = 1, .max = 4096,
	  .help = "machines: on a cluster one pod each; elsewhere all ranks run on this machine" },
	{ "procs_per_node", SPEC_INT, "1", .engine = true, .min = 1, .max = 128,
	  .help = "ranks on each machine" },
	{ "min_nodes", SPEC_INT, "0", .engine = true, .min = 0, .max = 4096,
	  .help = "of `nodes: {min, max}`: on a cluster torchrun starts the ranks, with so many "
		  "machines to `nodes`; elsewhere there are so many; 0: exactly `nodes`" },
	{ "servers", SPEC_INT, "0", .engine = true, .min = 0, .max = 1024,
	  .help = "parameter servers beside the workers (ps, tensorflow)" },
	{ "starts", SPEC_CHOICE, "\"ranks\"", .choices = "ranks|nodes",
	  .help = "what the command is: one rank, or one node's own launcher (torchrun, "
		  "accelerate, deepspeed --no_ssh)" },
	{ "grace", SPEC_DURATION, "\"10s\"",
	  .help = "time between SIGTERM and SIGKILL when the gang stops, to save a checkpoint" },
	{ "stall_timeout", SPEC_DURATION, "\"0s\"",
	  .help = "stop the gang when no rank has printed anything for this long (with several "
		  "pods: no rank of the first); 0s: never" },
	{ "max_restarts", SPEC_INT, "20", .min = 0, .max = 1000,
	  .help = "with `nodes: {min, max}`: how often the ranks of an attempt may start again "
		  "after one failed or its machine was lost (torchrun's --max-restarts)" },
	{ "metric_lines", SPEC_BOOL, "true", .help = "take metrics from what rank 0 prints" },
	{ "pin", SPEC_CHOICE, "\"auto\"", .choices = "auto|always|never",
	  .help = "give each rank cpus of its own; auto: when the step has the whole machine" },
	{ "gpus", SPEC_CHOICE, "\"auto\"", .choices = "auto|all|own",
	  .help = "which GPUs of the step a rank sees; auto: all for torch, mpi and horovod, which "
		  "choose by local rank; its own for the others" },
	{ 0 },
};

static const struct spec_port outputs[] = {
	{ "series", false, "the metrics over time, a JSON object a line" },
	{ 0 },
};

const struct step_spec spec_train = {
	.name = "train",
	.summary = "run a training program as a gang of ranks",
	.about = "Starts the step's own command (`run:`) once for each rank, with the environment "
		 "that its framework looks for, and watches over\n"
		 "all of them: the first that fails stops the others at once; SIGTERM reaches "
		 "each, with time to save; what they print goes into\n"
		 "one log, each line behind [rank N] when there are several (`cairn logs --rank "
		 "N`).\n\n"
		 "Metrics are lines of rank 0 that hold nothing but NAME=NUMBER words, such as "
		 "`loss=0.31 acc=0.9 step=400`, or one JSON object of\n"
		 "numbers. They become a series over `step` (or `epoch`), which `cairn metrics "
		 "--plot` draws; the last value of each is the step's\n"
		 "metric, unless the program writes the metrics file itself. What isn't finite "
		 "(nan, inf) is a gap.\n\n"
		 "With `checkpoint: DIR/` in the step, DIR is kept under the step's key: an "
		 "attempt that was killed, or a later run with the same\n"
		 "key, finds there what the last one saved. Lines that say their step make the "
		 "same series however often it was interrupted.\n\n"
		 "OMP_NUM_THREADS is the step's `resources.cpu` divided among the ranks, so that a "
		 "result doesn't depend on the machine's size.",
	.version = 1,
	.options = options,
	.outputs = outputs,
	.metrics = "metrics.json",
	.wraps_command = true,
	.ranks = true,
	.example =
		"  train:\n"
		"    uses: train\n"
		"    run: python3 train.py --data ${{ inputs.data }} --out ${{ outputs.model }}\n"
		"    inputs: {data: \"${{ steps.shard.outputs.train }}\"}\n"
		"    outputs: {model: model/}\n"
		"    checkpoint: ckpt/\n"
		"    distributed: {framework: torch, procs_per_node: 2}\n"
		"    with: {stall_timeout: 10m}\n"
		"    resources: {cpu: 2}\n",
};
