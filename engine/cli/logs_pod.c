#include "cli/logs_pod.h"

#include "cli/cluster.h"
#include "runners/kubernetes/runner.h"

struct shown {
	void (*show)(void *arg, const char *bytes, size_t n);
	void *arg;
};

static int sink(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct shown *s = arg;

	s->show(s->arg, bytes, n);
	return 0;
}

int logs_of_pod(const struct config *c, uint64_t attempt_id, bool follow, void (*show)(void *arg, const char *bytes, size_t n), void *arg, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct shown shown = { show, arg };
	struct kube_client *client = NULL;
	struct kube_access access;
	struct kube_profile profile;
	int r = cluster_access(c, arena, &access, err);

	if (r == 0)
		r = cluster_profile(c, &access, arena, &profile, err);
	if (r == 0)
		r = kube_client_new(&access, &(struct kube_client_options){ .patience_ns = 10 * NS_PER_S }, &client, err);
	if (r == 0)
		r = kube_follow_log(client, access.namespace_, attempt_id, profile.project, 0, follow, sink, &shown, err);
	kube_client_free(client);
	return r < 0 && err->code == ERR_NOT_FOUND ? 1 : r;
}
