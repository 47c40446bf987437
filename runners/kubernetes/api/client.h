/* runners/kubernetes/api/client.h — requests to the API server, one at a time per thread; any
 * number of threads share a client.
 *
 * A request waits for its turn (a token bucket limits the rate), is retried when that is safe, and
 * ends with a 2xx answer or an error:
 *
 *	ERR_NOT_FOUND   404
 *	ERR_EXISTS      409 AlreadyExists
 *	ERR_CHANGED     409 Conflict, 410
 *	ERR_TOO_LARGE   413
 *	ERR_NO_SPACE    403 of a quota
 *	ERR_INVALID     400, 405, 415, 422: the request is wrong, with the server's message
 *	ERR_INVALID     401, 403: no right to do it
 *	ERR_IO          no answer, or 5xx, after retries; any other status
 *	ERR_CANCELLED   kube_client_cancel()
 *
 * Retried: 429 and 5xx with Retry-After, at most ten times (k8s.io/client-go, rest/request.go). GET
 * is also retried when there is no answer or a 5xx; so are others when `repeatable` (a create with
 * a name of our own: the second one gets AlreadyExists). 401 is retried once, with new credentials.
 * Answers may be hostile: their size and depth are bounded.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_API_CLIENT_H
#define CAIRN_RUNNERS_KUBERNETES_API_CLIENT_H

#include "base/net/http.h"
#include "base/text/json.h"
#include "runners/kubernetes/api/access.h"

/* The largest object or page that is read. The server takes objects of up to 1.5 MiB (etcd's
 * limit); `limit` bounds pages. */
#define KUBE_ANSWER_MAX (64 * MIB)

struct kube_client;

struct kube_client_options {
	/* Requests a second; 0: 100. A task costs two or three. An overloaded server answers 429 */
	double qps;
	unsigned burst;           /* 0: 200 */
	unsigned max_connections; /* 0: 16 */
	/* How long GETs and repeatable requests are retried while the server doesn't answer; 0: 60
	 * s. */
	int64_t retry_for_ns;
};
/* `a` outlives the client. */
int kube_client_new(const struct kube_access *a, const struct kube_client_options *o,
		    struct kube_client **ret, struct err *err);
void kube_client_free(struct kube_client *c); /* NULL is fine */
/* Makes all calls, current and later ones, end with ERR_CANCELLED. Any thread. */
void kube_client_cancel(struct kube_client *c);
const struct kube_access *kube_client_access(const struct kube_client *c);

/* `accept` for a caller that needs metadata only: much less to write and to read. A server that
 * doesn't support it sends whole objects. */
#define KUBE_METADATA_ONLY \
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
#define KUBE_METADATA_LIST \
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

struct kube_call {
	const char *method;       /* "GET", "POST", "PUT", "PATCH", "DELETE" */
	const char *path;         /* "/apis/batch/v1/namespaces/default/jobs?limit=500" */
	const json_t *body;       /* or NULL */
	const char *content_type; /* of the body; NULL: application/json */
	const char *accept;       /* NULL: application/json */
	bool repeatable;
	bool once;          /* no retry, whatever the answer: the caller has a deadline */
	int64_t timeout_ns; /* of one try; 0: 60 s */
	/* Gets the bytes of a long answer as they come (on the client's thread). No retry after the
	 * first byte. */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	void *arg;
	int64_t quiet_timeout_ns; /* for a sink: longest time without a byte; 0: no limit */

	/* the answer */
	long status;     /* 0: no answer. With a sink, also of an answer that broke off */
	json_t *json;    /* a new reference, or NULL: the answer isn't JSON */
	struct str text; /* then the bytes are here */
	char reason[64]; /* of the Status object of an error: "AlreadyExists", "Expired", … */
};
int kube_do(struct kube_client *c, struct kube_call *call, struct err *err);
void kube_call_deinit(struct kube_call *call);

/* Lists all objects page by page, however many there are. */
struct kube_list {
	const char *group, *version, *ns, *resource; /* as kube_add_path */
	const char *label_selector;
	const char *accept; /* as a call's */
	int64_t timeout_ns; /* of one page; 0: 60 s */
	/* Gets each object, lent; != 0 ends the list. When the server has forgotten the list
	 * meanwhile (410), it begins again: an object may come twice. */
	int (*item)(void *arg, const json_t *object, struct err *err);
	void *arg;
};
/* Returns 0, or what item() returned to end it; -1 with the error of a request. */
int kube_list_each(struct kube_client *c, const struct kube_list *l, struct err *err);

/* "/apis/batch/v1/namespaces/NS/jobs/NAME", escaped. Group "" is the core; a NULL NS or NAME is
 * left out. */
void kube_add_path(struct str *out, const char *group, const char *version, const char *ns,
		   const char *resource, const char *name);
/* "labelSelector=…" for a query, escaped. */
void kube_add_selector(struct str *out, const char *selector);

/* How many requests went out so far, retries counted. */
uint64_t kube_client_requests(const struct kube_client *c);

#endif
