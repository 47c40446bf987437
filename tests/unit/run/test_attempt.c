/* What a runner is told of a step's task, before and after what it reads is known. */
#include "run/task/attempt.h"
#include "unit.h"

static const struct step_input inputs[] = { { .name = "data" }, { .name = "more" } };
static const struct step_output outputs[] = {
	{ .name = "model", .path = "model", .is_dir = true }
};
static const char *const secrets[] = { "TOKEN" };
static const struct expr_template command;
static const struct step_reads reads = { .secrets = secrets, .n_secrets = 1 };
static const struct step_measured measured = { .metrics = "metrics.json",
					       .series = STEP_SERIES_PATH };
static const struct step_policy policy = { .timeout_ns = 5 };
static const struct step_machine machine = {
	.place = { .json = "{}", .pack = 3 },
	.resources = { .cpu_milli = 1500, .memory_bytes = 7, .gpus = 2 },
	.distributed = { .framework = "torch", .nodes = 1, .procs_per_node = 2 },
};
static const struct step step = { .name = "train",
				  .program.run = &command,
				  .inputs = inputs,
				  .n_inputs = 2,
				  .outputs = outputs,
				  .n_outputs = 1,
				  .reads = &reads,
				  .measured = &measured,
				  .checkpoint = "ckpt",
				  .policy = &policy,
				  .machine = &machine };

static void check_step(const struct runner_attempt *a)
{
	assert_string_equal(a->on.step, "train");
	assert_int_equal(a->n_outputs, 1);
	assert_string_equal(a->outputs[0].path, "model");
	assert_true(a->outputs[0].is_dir);
	assert_string_equal(a->secrets[0],
			    "TOKEN="); /* the value is where it runs, or the caller's */
	assert_null(a->secrets[1]);
	assert_string_equal(a->metrics_path, "metrics.json");
	assert_string_equal(a->checkpoint_path, "ckpt");
	assert_int_equal(a->timeout_ns, 5);
	assert_string_equal(a->on.placement_json, "{}");
	assert_int_equal(a->on.pack, 3);
	assert_int_equal(a->resources.cpu_milli, 1500);
	assert_int_equal(a->resources.memory_bytes, 7);
	assert_int_equal(a->resources.gpus, 2);
	assert_string_equal(a->on.gang.framework,
			    "torch"); /* on one node too: its ranks have an environment */
	assert_int_equal(a->on.gang.nodes, 1);
	assert_int_equal(a->on.gang.procs_per_node, 2);
	assert_true(a->forwards_signals);
	assert_string_equal(a->series_path, STEP_SERIES_PATH);
}

static void test_unknown(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct runner_attempt a;

	attempt_of_step(&step, NULL, arena, &a);
	check_step(&a);
	assert_int_equal(a.n_inputs, 2);
	assert_string_equal(a.inputs[1].path, "inputs/more");
	assert_int_equal(a.inputs[1].id.kind, CONTENT_NONE);
	assert_null(a.argv[0]);
	assert_null(a.env[0]);
	assert_null(a.on.image);
	assert_null(a.code);
}

static void test_known(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "x", NULL }, *const env[] = { "A=1",
											   NULL };
	struct task_input in[] = { { .name = "data",
				     .path = "inputs/data.csv",
				     .id = { .kind = CONTENT_BLOB, .size_bytes = 9 } } };
	struct task_command c = { .argv = argv,
				  .env = env,
				  .inputs = in,
				  .n_inputs = 1,
				  .grace_ns = 4,
				  .image = "x@sha256:0" };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct runner_attempt a;

	attempt_of_step(&step, &c, arena, &a);
	check_step(&a);
	assert_int_equal(a.n_inputs, 1);
	assert_string_equal(a.inputs[0].path, "inputs/data.csv");
	assert_int_equal(a.inputs[0].id.size_bytes, 9);
	assert_ptr_equal(a.argv, argv);
	assert_ptr_equal(a.env, env);
	assert_string_equal(a.on.image, "x@sha256:0");
	assert_int_equal(a.grace_ns, 4);
	assert_null(a.code);
	c.code.kind = CONTENT_TREE;
	attempt_of_step(&step, &c, arena, &a);
	assert_ptr_equal(a.code, &c.code);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_unknown),
					    cmocka_unit_test(test_known) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
