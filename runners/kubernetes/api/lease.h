/* runners/kubernetes/api/lease.h — holds and renews a Lease of coordination.k8s.io/v1. Of several
 * processes one holds it at a time.
 *
 * A process holds the Lease when it has written its name into it, and writes again every
 * `retry_ns`. The server takes a write only if the object is still as it was read
 * (resourceVersion), so of two writes at once one fails. A Lease whose record hasn't changed for
 * its stated duration is free. Each process measures that time on its own clock, from the moment
 * when *it* saw the record change. renewTime is for people; clocks of two machines are never
 * compared.
 *
 * The holder gives up before others may take the Lease: HELD ends when no renewal has succeeded for
 * `renew_within_ns`, even when the server can't be reached. That time counts from before the last
 * successful renewal was sent. So two processes never hold it at once, as long as their clocks run
 * equally fast (to within duration_ns / renew_within_ns: a half). The clock runs on while the
 * machine sleeps.
 *
 * Rules and numbers are client-go's (k8s.io/client-go, tools/leaderelection/leaderelection.go): 15
 * s, 10 s, 2 s. The name identifies the holder: each process needs its own.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_LEASE_H
#define CAIRN_RUNNERS_KUBERNETES_API_LEASE_H

#include "runners/kubernetes/api/client.h"

enum kube_lease_state {
	KUBE_LEASE_WAITING, /* another process has it, or the holder isn't known yet */
	KUBE_LEASE_HELD,
	/* final: another process has it, or it couldn't be renewed in time. To try again, make a
	 * new one. */
	KUBE_LEASE_LOST,
};

struct kube_lease_options {
	const char *name;        /* in the access' namespace */
	const char *identity;    /* NULL: "host_" and a random part */
	int64_t duration_ns;     /* how long others wait; whole seconds. 0: 15 s */
	int64_t renew_within_ns; /* 0: 10 s; less than duration_ns */
	int64_t retry_ns;        /* 0: 2 s */
	/* Called on the lease's thread, one at a time, when the state or the holder changes.
	 * `holder`: its name, or NULL when unknown. `why`: the reason of LOST, and of WAITING while
	 * the server can't be reached; else NULL. */
	void (*on_change)(void *arg, enum kube_lease_state s, const char *holder, const char *why);
	void *arg;
};
struct kube_lease;
/* Starts to acquire it. `a` outlives the lease; the rest is copied. */
int kube_lease_new(const struct kube_access *a, const struct kube_lease_options *o,
		   struct kube_lease **ret, struct err *err);
/* release: gives up the Lease if it is held, so that others needn't wait until it lapses.
 * `on_change` isn't called any more. NULL is fine. */
void kube_lease_free(struct kube_lease *l, bool release);
/* Whether this process holds it now. Any thread. */
bool kube_lease_is_held(struct kube_lease *l);
const char *kube_lease_identity(const struct kube_lease *l);

#endif
