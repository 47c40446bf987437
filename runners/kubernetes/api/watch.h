/* runners/kubernetes/api/watch.h — lists all objects of one kind and reports every change.
 *
 * A watch has its own thread, which lists and then watches. It handles pages, bookmarks, a history
 * that the server forgot (410 as an answer and as an event in mid-stream), servers that end the
 * stream or fall silent, and 429. Its user gets SYNC_BEGIN, ADDED for each object, SYNC_END; then
 * ADDED, MODIFIED, DELETED as they come. Whenever history was lost, it begins again with
 * SYNC_BEGIN. An object that doesn't come between SYNC_BEGIN and SYNC_END is gone. An object may
 * come twice with the same resourceVersion. When the server offers it (WatchList, from 1.34), the
 * list comes as a stream, too.
 *
 * A server may also lose an event silently. So a watch that ends, or is abandoned, five minutes or
 * more after the last full list makes a new list: every 5 to 10 minutes, by the times below.
 *
 * Times are client-go's (tools/cache/reflector.go): a watch lasts 5 to 10 minutes, back-off is from
 * 0.8 s to 30 s.
 *
 * A connection can die without a sign, and then nobody would see the end of a step. So a connection
 * without a byte for half a minute is abandoned, and a new one asks for all events since the last
 * version. That costs two small requests per run where nothing happens. (Bookmarks come each minute
 * at best; waiting for those took three minutes.)
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_WATCH_H
#define CAIRN_RUNNERS_KUBERNETES_API_WATCH_H

#include "runners/kubernetes/api/client.h"

enum kube_event { KUBE_SYNC_BEGIN, KUBE_SYNC_END, KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };

struct kube_watch_options {
	const char *group, *version, *ns, *resource; /* as kube_add_path */
	const char *label_selector;                  /* or NULL */
	bool no_stream; /* list by pages, even when the server offers a stream */
	/* Called on the watch's thread, one at a time. The object is lent. */
	void (*event)(void *arg, enum kube_event e, const json_t *object);
	/* The server can't be reached (the watch retries), or can again (err NULL). May be NULL.
	 * `denied`: it answers, but refuses us (401, 403). */
	void (*trouble)(void *arg, const struct err *err, bool denied);
	void *arg;
	int64_t quiet_ns;  /* 0: half a minute; for tests */
	int64_t resync_ns; /* 0: five minutes; for tests */
	unsigned page;     /* 0: 100 */
};
struct kube_watch;
/* Copies the options; `a` outlives it. */
int kube_watch_new(const struct kube_access *a, const struct kube_watch_options *o,
		   struct kube_watch **ret, struct err *err);
/* Ends the thread; no event comes during or after it. NULL is fine. */
void kube_watch_free(struct kube_watch *w);

#endif
