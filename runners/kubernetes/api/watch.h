/* runners/kubernetes/api/watch.h — all objects of one kind, and every change of them.
 *
 * A watch has a thread of its own that lists and then watches, and does what it takes to go on:
 * pages, bookmarks, a history that was forgotten (410 as an answer and as an event in mid-stream),
 * servers that end the stream or fall silent, 429. Its user gets SYNC_BEGIN, ADDED for
 * each that is there, SYNC_END; then ADDED, MODIFIED, DELETED as they come. Whenever the past was
 * lost, it begins again with SYNC_BEGIN. An object that doesn't come between SYNC_BEGIN and
 * SYNC_END is gone. An object may come twice with the same resourceVersion. Where the server offers
 * it (WatchList, from 1.34), the list comes as a stream, too.
 *
 * A server may also forget an event and not say so. So a watch that ends, or is left, five minutes
 * after the last full list makes a new one: every 5 to 10 minutes, by the times below.
 *
 * Times are client-go's (tools/cache/reflector.go): a watch is asked for 5 to 10 minutes, back-off
 * from 0.8 s to 30 s.
 *
 * A connection can be dead without a sign, and then the end of a step stays unseen. So one without
 * a byte for half a minute is left, and a new one asks for all since the last version: two small
 * requests a run where nothing happens. (Bookmarks come each minute at best, and waiting for those
 * took three minutes.)
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_WATCH_H
#define CAIRN_RUNNERS_KUBERNETES_API_WATCH_H

#include "runners/kubernetes/api/client.h"

enum kube_event { KUBE_SYNC_BEGIN, KUBE_SYNC_END, KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };

struct kube_watch_options {
	const char *group, *version, *ns, *resource; /* as kube_add_path */
	const char *label_selector;                  /* or NULL */
	bool no_stream;                              /* list by pages, whatever the server offers */
	/* On the watch's thread, one at a time. The object is lent. */
	void (*event)(void *arg, enum kube_event e, const json_t *object);
	/* The server can't be asked (and is tried again), or can again (err NULL). May be NULL.
	 * `denied`: it answers, but not to us (401, 403). */
	void (*trouble)(void *arg, const struct err *err, bool denied);
	void *arg;
	int64_t quiet_ns;  /* 0: half a minute; for tests */
	int64_t resync_ns; /* 0: five minutes; for tests */
	unsigned page;     /* 0: 500 */
};
struct kube_watch;
/* Copies the options; `a` outlives it. */
int kube_watch_new(const struct kube_access *a, const struct kube_watch_options *o,
		   struct kube_watch **ret, struct err *err);
void kube_watch_free(struct kube_watch *w); /* ends the thread; no event is under way or comes
					       afterwards. NULL is fine */

#endif
