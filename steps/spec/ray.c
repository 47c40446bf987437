/* The table of `ray`. */
#include "steps/spec/tables.h"

static const struct spec_option text[] = { { "a text", SPEC_STRING }, { 0 } };

static const struct spec_option options[] = {
	{ "address", SPEC_STRING, .elsewhere = true,
	  .help = "the cluster's dashboard, http://HOST:8265; without it RAY_ADDRESS" },
	{ "working_dir", SPEC_STRING, "\".\"",
	  .help = "what Ray copies to the cluster for the job: the step's directory with its code "
		  "and inputs; a URI of a zip; \"\": nothing" },
	{ "excludes", SPEC_LIST, "[]", .max = 1000, .sub = text,
	  .help = "what of working_dir isn't copied, as in .gitignore: inputs/" },
	{ "env", SPEC_LIST, "[]", .max = 1000, .sub = text,
	  .help = "variables of the step that the job has, too; values in the command need none" },
	{ "runtime_env", SPEC_ANY, "{}", .help = "Ray's runtime environment: {pip: [torch]}" },
	{ "unreachable", SPEC_DURATION, "\"1m\"", .elsewhere = true,
	  .help = "how long Ray may not answer" },
	{ "grace", SPEC_DURATION, "\"30s\"", .elsewhere = true,
	  .help = "time for the job to stop when the step is cancelled" },
	{ 0 },
};

const struct step_spec spec_ray = {
	.name = "ray",
	.summary = "run a command as a job of a Ray cluster that exists",
	.about =
		"Submits the step's own command (`run:`) with `ray job submit`, which must be on "
		"PATH, and follows the job to its end: its log is the step's log, and a job that "
		"fails fails the step. When the step is cancelled or its time is up, so is the "
		"job (`ray job stop`).\n\n"
		"The job's id comes from the run and the task. An attempt after a crash finds the "
		"job of the one before and follows it; only after a failure there is a new job, "
		"ID-2.\n\n"
		"The job runs on the cluster, in a copy of the step's directory, so it can't write "
		"outputs there. It writes where both see it: a bucket, or a shared file system, "
		"where the step's directory is $CAIRN_WORKSPACE. No secret goes to the job.",
	.version = 1,
	.options = options,
	.wraps_command = true,
	.example = "  train:\n"
		   "    uses: ray\n"
		   "    run: python3 train.py --lr ${{ params.lr }}\n"
		   "    code: [train.py]\n"
		   "    with: {address: \"http://ray.example.org:8265\"}\n",
};
