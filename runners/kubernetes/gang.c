/* runners/kubernetes/gang.c — joins the logs of an attempt's nodes into one text, node by node.
 * Each line of a rank follows the rank's number, as the launcher wrote it. A node of an elastic
 * gang has as many logs as it had pods whose program ran, perhaps none; every other node has one.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "runners/kubernetes/internal.h"

/* For all nodes together, in memory until it is in the store; each gets at least an equal share.
 */
#define GANG_LOG_MAX (256 * MIB)

struct gang_part {
	unsigned index;
	int64_t created_ns;
	char pod[254], node[254];
	char *message; /* the sidecar's, or NULL */
};

static const char *word_of(const struct pod_facts *f)
{
	return f->sidecar.message ? f->sidecar.message : f->sidecar.last_message;
}

static void fill(struct gang_part *part, const struct pod_facts *f)
{
	part->index = f->index;
	part->created_ns = f->created_ns;
	snprintf(part->pod, sizeof(part->pod), "%s", f->name);
	snprintf(part->node, sizeof(part->node), "%s", f->node ? f->node : "");
	free(part->message);
	part->message = word_of(f) ? xstrdup(word_of(f)) : NULL;
}

static int by_index(const void *x, const void *y)
{
	const struct gang_part *a = x, *b = y;

	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return (a->created_ns > b->created_ns) - (a->created_ns < b->created_ns);
}

static struct gang_part *elastic_parts(const struct bundle *b, size_t *ret_n)
{
	struct gang_part *parts = xcalloc(b->pods.n + 1, sizeof(*parts));
	size_t n = 0;

	for (size_t i = 0; i < b->pods.n; i++) {
		const struct pod_facts *f = &b->pods.v[i]->f;

		if (f->index < b->nodes && (word_of(f) || f->main.state != CONTAINER_WAITING))
			fill(&parts[n++], f);
	}
	qsort(parts, n, sizeof(*parts), by_index);
	*ret_n = n;
	return parts;
}

struct gang_part *gang_parts(const struct bundle *b, size_t *ret_n)
{
	struct gang_part *parts;

	*ret_n = 0;
	if (b->nodes <= 1)
		return NULL;
	if (b->min_nodes)
		return elastic_parts(b, ret_n);
	*ret_n = b->nodes;
	parts = xcalloc(b->nodes, sizeof(*parts));
	for (unsigned i = 0; i < b->nodes; i++)
		parts[i].index = i;
	for (size_t i = 0; i < b->pods.n; i++) {
		const struct pod_facts *f = &b->pods.v[i]->f;

		if (f->index < b->nodes && !(parts[f->index].message && !word_of(f)))
			fill(&parts[f->index], f);
	}
	return parts;
}

void gang_parts_free(struct gang_part *parts, size_t n)
{
	for (size_t i = 0; parts && i < n; i++)
		free(parts[i].message);
	free(parts);
}

/* On a worker. */

struct part_log {
	struct content_id id; /* NONE: there is none */
	bool silent; /* because nothing was printed, as on nodes where mpirun doesn't run */
};

/* Finds the log by the sidecar's message. */
static struct part_log log_of(struct kube *k, const struct gang_part *part, uint64_t attempt_id)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct part_log log = { 0 };
	struct pod_result *results;
	size_t n;

	if (!part->message || runner_read_result(k, part->message, arena, &results, &n, NULL) < 0)
		return log;
	for (size_t i = 0; i < n && log.id.kind == CONTENT_NONE; i++)
		if (results[i].attempt_id == attempt_id) {
			log.id = results[i].r.log;
			log.silent =
				log.id.kind == CONTENT_NONE && results[i].r.failure == FAILURE_NONE;
		}
	return log;
}

struct joined {
	const struct runner_staging *s;
	int fd;
	unsigned nodes;
	size_t left;   /* parts that aren't added yet */
	uint64_t used; /* of GANG_LOG_MAX; later parts may use what earlier ones left */
};

/* 1: some of the log was added. */
static int add_part(struct joined *to, const struct gang_part *part, const struct part_log *log)
{
	_cleanup_(str_deinit) struct str text = { 0 }, head = { 0 };
	struct err err = { 0 };
	bool there;

	assert(part->index < to->nodes && to->left > 0 && to->used <= GANG_LOG_MAX);
	there = log->id.kind != CONTENT_NONE &&
		to->s->fetch(to->s->arg, &log->id, (GANG_LOG_MAX - to->used) / to->left, &text,
			     &err) == 0;
	to->left--;
	str_addf(&head, "=== node %u of %u", part->index, to->nodes);
	if (*part->node)
		str_addf(&head, ", on %s", part->node);
	if (log->id.kind == CONTENT_NONE)
		str_add(&head,
			log->silent ? ": printed nothing" : ": printed nothing that could be kept");
	else if (!there)
		str_addf(&head, ": %s", err.msg);
	str_add(&head, " ===\n");
	to->used += there ? text.len : 0;
	if (there && text.len && text.s[text.len - 1] != '\n')
		str_addc(&text, '\n');
	if (fs_write_all(to->fd, head.s, head.len, NULL) < 0 ||
	    (there && text.len && fs_write_all(to->fd, text.s, text.len, NULL) < 0))
		return -1;
	return there;
}

void gang_log(struct kube *k, const struct gang_log_options *o, struct content_id *ret)
{
	_cleanup_(fd_closep) int fd = memfd_create("log", MFD_CLOEXEC);
	struct joined to = { .s = &k->o.staging, .fd = fd, .nodes = o->nodes, .left = o->n };
	int r = 0, any = 0;

	for (size_t i = 0; i < o->n && fd >= 0 && r >= 0; i++) {
		const struct gang_part *part = &o->parts[i];
		struct part_log log = log_of(k, part, o->attempt_id);

		if (log.id.kind == CONTENT_NONE && strcmp(part->pod, o->other_pod) == 0)
			log.id = *o->other;
		r = add_part(&to, part, &log);
		any |= r > 0;
	}
	if (r < 0 || !any || lseek(fd, 0, SEEK_SET) < 0 ||
	    k->o.staging.put_log(k->o.staging.arg, fd, ret, NULL) < 0)
		*ret = (struct content_id){ 0 };
}
