/* runners/kubernetes/api/lease.h — a Lease of coordination.k8s.io/v1, held and renewed: of several
 * processes one has it at a time.
 *
 * Whoever writes his name into the Lease holds it, and writes again every `retry_ns`; the server
 * takes a write only if the object is still as it was read (resourceVersion), so that of two at
 * once one fails. A Lease whose record hasn't changed for as long as it says is anybody's. That
 * time is measured from when *we* saw the record change, on our own clock: renewTime is for people,
 * and no two machines' clocks are held against each other.
 *
 * The holder gives up before others may take it: when no renewal has succeeded for
 * `renew_within_ns`, counted from before the last one that did was sent, HELD is over, whether the
 * server can be asked or not. So no two believe at once that they hold it, as long as their clocks
 * run equally fast (to within duration_ns / renew_within_ns: a half). The clock goes on while the
 * machine sleeps.
 *
 * Rules and numbers are client-go's (k8s.io/client-go, tools/leaderelection/leaderelection.go): 15
 * s, 10 s, 2 s. Held by name: each process needs an own one.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_LEASE_H
#define CAIRN_RUNNERS_KUBERNETES_API_LEASE_H

#include "runners/kubernetes/api/client.h"

enum kube_lease_state {
	KUBE_LEASE_WAITING, /* somebody else has it, or it isn't known who */
	KUBE_LEASE_HELD,
	KUBE_LEASE_LOST, /* the last word: another has it, or it couldn't be renewed in time. To
			    begin anew, make a new one */
};

struct kube_lease_options {
	const char *name;        /* in the access' namespace */
	const char *identity;    /* NULL: "host_" and something random */
	int64_t duration_ns;     /* that others wait; whole seconds. 0: 15 s */
	int64_t renew_within_ns; /* 0: 10 s; less than duration_ns */
	int64_t retry_ns;        /* 0: 2 s */
	/* On a thread of the lease's, one at a time, when the state or the holder changed.
	 * `holder`: its name, or NULL when nobody is known; `why`: of LOST, and of WAITING while
	 * the server can't be asked; else NULL. */
	void (*told)(void *arg, enum kube_lease_state s, const char *holder, const char *why);
	void *arg;
};
struct kube_lease;
/* Begins to ask for it. `a` outlives the lease; the rest is copied. */
int kube_lease_new(const struct kube_access *a, const struct kube_lease_options *o,
		   struct kube_lease **ret, struct err *err);
/* release: gives the Lease up if it is held, so that others needn't wait for it to lapse. `told`
 * isn't called any more. NULL is fine. */
void kube_lease_free(struct kube_lease *l, bool release);
/* Whether it is ours at this moment. Any thread. */
bool kube_lease_is_held(struct kube_lease *l);
const char *kube_lease_identity(const struct kube_lease *l);

#endif
