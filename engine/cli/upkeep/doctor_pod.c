/* `cairn doctor --on kubernetes --deep`: makes a pod as for a task, waits for its end, and removes
 * it. So everything between here and the store is tested as pods use it. */
#include <stdio.h>
#include "base/os/machine.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/session.h"
#include "cli/upkeep/doctor.h"

#define WITHIN_NS (180 * NS_PER_S)
#define END_NS    (20 * NS_PER_S) /* to remove the Job */

struct trial {
	struct session s;
	bool ended;
	enum failure_class failure;
	struct err why;
	bool has_log;
	char waits[512]; /* the last reason for waiting */
	char node[128];
};

static void on_started(void *arg, uint64_t id, int64_t wall_ns, pid_t pid)
{
}

static void on_waiting(void *arg, uint64_t id, const char *why)
{
	struct trial *t = arg;

	snprintf(t->waits, sizeof(t->waits), "%s", why ? why : "");
}

static void on_finished(void *arg, uint64_t id, struct runner_result *r)
{
	struct trial *t = arg;

	t->ended = true;
	t->failure = r->failure;
	t->why = r->err;
	t->has_log = r->log.kind != CONTENT_NONE;
	snprintf(t->node, sizeof(t->node), "%s", r->node ? r->node : "?");
}

static int64_t mono(const struct trial *t)
{
	struct clock *c = loop_clock(t->s.loop);

	return c->mono_ns(c);
}

static void turn_until(struct trial *t, int64_t within_ns)
{
	int64_t end = mono(t) + within_ns;
	struct err err = { 0 };

	while (!t->ended && mono(t) < end && loop_turn(t->s.loop, end - mono(t), &err) > 0)
		;
}

/* Makes an attempt that runs a program of Cairn's own image. It reads its input from the store, and
 * its log is sent there. */
static int make(struct trial *t, struct runner_attempt *a, struct runner_input *in,
		struct digest *key, struct err *err)
{
	static const char *const argv[] = { "/usr/bin/cairn", "version", NULL }, *const none[] = {
		NULL
	};
	uint64_t rnd[3];

	random_bytes(rnd, sizeof(rnd));
	digest_bytes(rnd, sizeof(rnd), key);
	if (content_put_bytes(t->s.store, rnd, sizeof(rnd), &in->id, err) < 0)
		return -1;
	in->name = in->path = "probe";
	*a = (struct runner_attempt){ .id = rnd[0] >> 12,
				      .run_id = "doctor",
				      .task = "doctor",
				      .on.step = "doctor",
				      .number = 1,
				      .key = key,
				      .argv = argv,
				      .env = none,
				      .secrets = none,
				      .inputs = in,
				      .n_inputs = 1,
				      .timeout_ns = 60 * NS_PER_S,
				      .grace_ns = 5 * NS_PER_S,
				      .resources = { .cpu_milli = 100,
						     .memory_bytes = 128 * MIB } };
	return 0;
}

static void attempt(struct doctor *d, struct trial *t)
{
	struct runner *r = t->s.runner;
	struct runner_attempt a;
	struct runner_input in;
	struct digest key;
	struct err err = { 0 };
	int64_t began = mono(t), took;

	r->events = (struct runner_events){
		.started = on_started, .waiting = on_waiting, .finished = on_finished, .arg = t
	};
	if (make(t, &a, &in, &key, &err) < 0 || r->ops->submit(r, &a, &err) < 0) {
		doctor_found(d, DOCTOR_PROBLEM, "pod", NULL, "%s", err.msg);
		return;
	}
	turn_until(t, WITHIN_NS);
	took = mono(t) - began;
	if (!t->ended)
		doctor_found(d, DOCTOR_PROBLEM, "pod", NULL, "did not end within %s%s%s",
			     cli_duration(d->cli, WITHIN_NS), t->waits[0] ? ": " : "", t->waits);
	else if (t->failure != FAILURE_NONE)
		doctor_found(d, DOCTOR_PROBLEM, "pod", NULL, "%s: %s",
			     failure_class_name(t->failure), t->why.msg);
	else if (!t->has_log)
		doctor_found(d, DOCTOR_PROBLEM, "pod", "see what the store lets pods do",
			     "ran, but what it printed isn't in the store");
	else
		doctor_found(d, DOCTOR_OK, "pod", NULL,
			     "ran on %s, read from and wrote to %s; %s in all", t->node,
			     d->config->store.uri, cli_duration(d->cli, took));
	if (!t->ended) {
		r->ops->cancel(r, a.id, false);
		turn_until(t, END_NS);
	}
	if (t->ended && r->ops->settled)
		r->ops->settled(r, a.id);
}

void doctor_pod(struct doctor *d)
{
	struct trial t = { .s = { .leases_fd = -1 } };
	struct err err = { 0 };

	if (session_open(&t.s, d->cli, true, &err) < 0)
		doctor_found(d, DOCTOR_PROBLEM, "pod", NULL, "%s", err.msg);
	else
		attempt(d, &t);
	session_close(&t.s);
}
