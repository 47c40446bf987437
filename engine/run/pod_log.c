#include "run/pod_log.h"

#include <poll.h>
#include "run/cluster.h"
#include "runners/kubernetes/runner.h"

#define LOOK_AGAIN_MS 500
#define PATIENCE_NS   (10 * NS_PER_S)

struct pod_log {
	struct cluster cluster;
};

int pod_log_open(const struct config *c, struct pod_log **ret, struct err *err)
{
	const struct kube_client_options o = { .patience_ns = PATIENCE_NS, .max_connections = 1 };
	struct pod_log *l = xcalloc(1, sizeof(*l));

	if (cluster_open(c, &o, &l->cluster, err) < 0) {
		free(l);
		return -1;
	}
	*ret = l;
	return 0;
}

void pod_log_close(struct pod_log *l)
{
	if (!l)
		return;
	cluster_close(&l->cluster);
	free(l);
}

void pod_log_cancel(struct pod_log *l)
{
	kube_client_cancel(l->cluster.client);
}

int pod_log_print(struct pod_log *l, const struct pod_log_options *o, struct err *err)
{
	struct pollfd wake = { .fd = o->wake_fd, .events = POLLIN };
	const struct cluster *k = &l->cluster;

	for (;;) {
		bool runs = o->runs(o->arg);
		struct err why = { 0 };

		if (kube_follow_log(k->client, k->access.namespace_, o->attempt_id, k->profile.project, 0, o->follow, o->sink, o->arg, &why) == 0)
			return POD_LOG_WHOLE;
		if (why.code != ERR_NOT_FOUND) {
			*err = why;
			return -1;
		}
		if (!o->follow || !runs || poll(&wake, 1, LOOK_AGAIN_MS) > 0)
			return POD_LOG_NO_POD;
	}
}
