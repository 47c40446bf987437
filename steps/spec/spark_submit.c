/* The table of `spark-submit`. */
#include "steps/spec/tables.h"

static const struct spec_option value[] = { { "a value", SPEC_ANY }, { 0 } };

static const struct spec_option options[] = {
	{ "master", SPEC_STRING, .elsewhere = true,
	  .help = "spark://HOST:7077, k8s://https://HOST, yarn, local[4]; without it what Spark's "
		  "own files say" },
	{ "deploy_mode", SPEC_CHOICE, "\"client\"", .choices = "client|cluster", .elsewhere = true,
	  .help = "where the driver runs: in the step, or on the cluster" },
	{ "conf", SPEC_MAP, "{}", .sub = value,
	  .help = "Spark's properties: {spark.executor.instances: 4}" },
	{ "grace", SPEC_DURATION, "\"30s\"", .elsewhere = true,
	  .help = "time for the application to stop when the step is cancelled" },
	{ 0 },
};

const struct step_spec spec_spark_submit = {
	.name = "spark-submit",
	.summary = "run a command that submits to a Spark cluster that exists",
	.about = "Runs the step's own command (`run:`), which calls spark-submit, or a Python "
		 "program that makes a SparkSession. Spark's defaults come from this step's "
		 "settings: SPARK_CONF_DIR is a copy of Spark's own directory of settings with "
		 "them added. So nothing in the command names a cluster. What the command says "
		 "itself wins.\n\n"
		 "With the driver in the step (client) inputs and outputs are files of the step. "
		 "With `deploy_mode: cluster` Spark waits for the end of the application; when "
		 "the step is cancelled, the driver is killed by the id that spark-submit printed "
		 "(`spark-submit --kill`, `yarn application -kill`).",
	.version = 1,
	.options = options,
	.wraps_command = true,
	.example = "  etl:\n"
		   "    uses: spark-submit\n"
		   "    run: spark-submit etl.py ${{ inputs.events }} ${{ outputs.table }}\n"
		   "    code: [etl.py]\n"
		   "    inputs: {events: data/events/}\n"
		   "    outputs: {table: table/}\n"
		   "    with: {master: \"spark://spark.example.org:7077\", conf: "
		   "{spark.executor.memory: 4g}}\n",
};
