/* engine/pod/cache.c — inputs by way of the node's cache.
 *
 * The cache is a directory of the node, or a claim, that only sidecars mount as a whole; views.c
 * has what main mounts of it. It is the directory in front of the bucket (storage/remote/tier.h),
 * so content is found by its digest, every copy out of it is hashed, and the least recently used is
 * evicted. It is open only while inputs are fetched: what a pod that runs for days has read may be
 * evicted meanwhile.
 *
 * Pods that begin together want the same content. A lock for each content lets one of them fetch it
 * and the others wait for that. There are LOCKS files, so that they need not be removed; contents
 * that share one wait for each other.
 *
 * Invariant: a cache that can't be used costs time, never the attempt. There are two exceptions,
 * after which the attempt is tried again: a damaged copy, which is set aside, and an input that
 * main was to mount, and can't.
 *
 * Threads: the sidecar's main thread.
 */
#include <fcntl.h>
#include "base/os/fs.h"
#include "pod/internal.h"

#define LOCKS 64

static void go_without(struct pod *p, const struct err *why)
{
	pod_say(p, "going on without the node's cache: %s", why->msg);
	store_free(p->cache);
	p->cache = NULL;
}

void pod_cache_open(struct pod *p)
{
	_cleanup_(freep) char *locks = NULL;
	struct err why = { 0 };

	if (!p->o.cache_dir)
		return;
	locks = fs_join(p->o.cache_dir, "locks");
	/* Other users of the node have no business there. */
	if (fs_mkdir_p_at(AT_FDCWD, p->o.cache_dir, 0700, &why) < 0 ||
	    fs_mkdir_p(locks, &why) < 0 || p->o.open_cache(p->o.cache_dir, &p->cache, &why) < 0)
		go_without(p, &why);
}

/* Takes the content's lock, so that another pod fetches it before or after, not meanwhile. */
static int fetch(struct pod *p, const struct content_id *id, int *ret_lock, struct err *err)
{
	_cleanup_(freep) char *path =
		xasprintf("%s/locks/%02u", p->o.cache_dir, id->digest.b[0] % LOCKS);

	if (fs_lock_path(path, true, ret_lock, err) < 0)
		return -1;
	return content_fetch(p->cache, id, err);
}

int pod_fill_input(struct pod *p, struct pod_slot *s, size_t i, struct err *err)
{
	const struct runner_input *in = &s->a->inputs[i];
	_cleanup_(fd_closep) int lock = -1;
	struct err why = { 0 };

	if (in->view && pod_view_is_complete(p, in))
		return 0;
	if (p->cache && fetch(p, &in->id, &lock, &why) < 0)
		go_without(p, &why);
	/* With the lock, so that only one of many pods has to hash it. */
	if (in->view)
		return pod_view_fill(p, in, err);
	fd_closep(&lock);
	lock = -1;
	return content_fill_at(p->cache ? p->cache : p->store, &in->id, CONTENT_LINK_READONLY,
			       s->w_fd, in->path, err);
}

void pod_cache_close(struct pod *p)
{
	struct err ignored = { 0 };

	if (!p->cache)
		return;
	(void)store_sync(p->cache, &ignored);
	store_free(p->cache);
	p->cache = NULL;
}
