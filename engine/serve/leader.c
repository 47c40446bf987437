/* Of several servers only the holder of the Lease works (runners/kubernetes/api/lease.h). The
 * others stand by with only HTTP open, which says so.
 *
 * A server that loses the Lease ends. It kills its runs as a crash would: their Jobs go on, and the
 * next server takes the runs up from the journal. The Lease's own thread does that, whatever the
 * loop is doing. */
#include <stdio.h>
#include <string.h>
#include "base/time/clock.h"
#include "record/rows/takeover.h"
#include "serve/event.h"
#include "serve/internal.h"

/* Takes over the runs that former servers left. */
static int take_over(struct daemon *d, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	for (size_t i = 0; i < d->n_projects; i++) {
		size_t runs;

		if (record_take_over(d->projects[i]->db, server_name_self(arena), clock_wall_ns(),
				     &runs, err) < 0)
			return err_wrap(err, "taking over %s", d->projects[i]->root);
		if (runs)
			event(EVENT_INFO, "taken-over", "{s:s, s:i}", "project",
			      d->projects[i]->name, "runs", (int)runs);
	}
	return 0;
}

static void on_held(struct daemon *d)
{
	event(EVENT_INFO, "lease-held", "{s:s, s:s}", "lease", d->o->lease->name, "as",
	      kube_lease_identity(d->lease));
	if (d->drain.signals || atomic_load(&d->phase) != DAEMON_STANDBY)
		return;
	atomic_store(&d->phase, DAEMON_STARTING); /* this blocks the loop's thread for a while */
	if (daemon_open_projects(d, &d->failure) < 0 || take_over(d, &d->failure) < 0 ||
	    daemon_begin(d, &d->failure) < 0)
		loop_stop(d->loop);
}

/* Acts on the latest report only: older ones no longer matter. */
static void on_lease_change(void *arg)
{
	struct daemon *d = arg;
	struct leader now;

	pthread_mutex_lock(&d->lock);
	now = d->leader;
	pthread_mutex_unlock(&d->lock);
	if (now.state == KUBE_LEASE_HELD) {
		on_held(d);
	} else if (now.state == KUBE_LEASE_LOST) {
		event(EVENT_ERROR, "lease-lost", "{s:s, s:s}", "lease", d->o->lease->name, "why",
		      now.why);
		err_set(&d->failure, ERR_BUSY,
			"the Lease %s was lost: %s; the runs now belong to the server that holds "
			"it",
			d->o->lease->name, now.why);
		loop_stop(d->loop);
	} else {
		event(EVENT_INFO, "standing-by", "{s:s, s:s, s:s}", "lease", d->o->lease->name,
		      "holder", now.holder, "why", now.why);
	}
}

/* Called on the Lease's thread. */
static void on_change(void *arg, enum kube_lease_state s, const char *holder, const char *why)
{
	struct daemon *d = arg;

	if (s == KUBE_LEASE_LOST)
		launches_kill(d->runs.launches, NULL);
	pthread_mutex_lock(&d->lock);
	d->leader.state = s;
	snprintf(d->leader.holder, sizeof(d->leader.holder), "%s", holder ? holder : "");
	snprintf(d->leader.why, sizeof(d->leader.why), "%s", why ? why : "");
	pthread_mutex_unlock(&d->lock);
	loop_post(d->loop, on_lease_change, d);
}

int leader_start(struct daemon *d, struct err *err)
{
	const struct daemon_lease *l = d->o->lease;
	const struct kube_lease_options o = { .name = l->name,
					      .duration_ns = l->duration_ns,
					      .renew_within_ns = l->duration_ns * 2 / 3,
					      .retry_ns = l->duration_ns / 8,
					      .on_change = on_change,
					      .arg = d };

	launches_end_with_server(d->runs.launches);
	sdnotify_ready(&d->systemd); /* a standby server is ready too */
	return kube_lease_new(l->access, &o, &d->lease, err);
}

/* Runs with remote tasks are left to the next server as they are; a stop would waste their work. */
void leader_hand_over(struct daemon *d)
{
	for (size_t i = 0; d->lease && i < d->n_projects; i++)
		if (str_eq(d->projects[i]->config->runner, "kubernetes"))
			launches_kill(d->runs.launches, d->projects[i]);
}

void leader_end(struct daemon *d)
{
	bool idle = !d->runs.launches || launches_running(d->runs.launches) == 0;

	if (d->lease && !idle) /* they must not outlive the lease */
		launches_kill(d->runs.launches, NULL);
	kube_lease_free(d->lease, idle);
	d->lease = NULL;
}
