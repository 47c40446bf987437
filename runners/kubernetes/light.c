/* runners/kubernetes/light.c — the requests for light pods (job/light.h): the helper's ConfigMap,
 * once for an engine, and each Job's plans; and the log of a light pod.
 *
 * What can't be had (no right to make ConfigMaps, no quota for them, workspaces that are too large)
 * is no failure: the Job's pods have a sidecar then. The helper's ConfigMap is compared byte for
 * byte with ours, because each step of the namespace runs it. It stays; others reuse it. Plans are
 * made before their Job and belong to it from then on (own_plans()): Kubernetes deletes them with
 * it. An engine that dies between leaves that to the next one, which finds their name in the Job's
 * annotation.
 *
 * On workers, several at once; `light.lock` is held during requests about the helper only. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "runners/kubernetes/internal.h"
#include "runners/workspace.h"

/* A busy node answers late, or its runtime hasn't written all of a log yet. */
#define LOG_TRIES    5
#define LOG_AGAIN_NS (250 * NS_PER_MS)

static int request(struct kube *k, const char *method, const char *name, const json_t *body,
		   const char *accept, json_t **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	bool patch = str_eq(method, "PATCH");
	struct kube_call call = { .method = method,
				  .body = body,
				  .repeatable = true,
				  .accept = accept,
				  .content_type = patch ? "application/merge-patch+json" : NULL };
	int r;

	kube_add_path(&path, "", "v1", k->o.profile->namespace_, "configmaps", name);
	call.path = path.s;
	r = kube_do(k->client, &call, err);
	if (ret)
		*ret = r == 0 ? json_incref(call.json) : NULL;
	call.path = NULL;
	call.body = NULL;
	kube_call_deinit(&call);
	return r;
}

/* The helper. */

static int find_program(struct kube *k, const char *name, const json_t *want, struct err *err)
{
	_cleanup_(json_decrefp) json_t *there = NULL;

	if (request(k, "GET", name, NULL, NULL, &there, err) < 0)
		return -1;
	return json_is_true(json_object_get(there, "immutable")) &&
			       json_equal(json_object_get(there, "binaryData"),
					  json_object_get(want, "binaryData"))
		       ? 0
		       : err_set(err, ERR_EXISTS, "the ConfigMap %s isn't Cairn's", name);
}

/* What is refused is asked for once. */
static bool has_program(struct kube *k, struct kube_light *names)
{
	_cleanup_(json_decrefp) json_t *map = kube_light_program(k->o.profile, &k->o.light, names);
	struct err err = { 0 };
	int r;

	pthread_mutex_lock(&k->light.lock);
	if (!k->light.there && !k->light.refused) {
		r = find_program(k, names->program, map, &err);
		if (r < 0 && err.code == ERR_NOT_FOUND) {
			err = (struct err){ 0 };
			r = request(k, "POST", NULL, map, KUBE_METADATA_ONLY, NULL, &err);
			if (r < 0 && err.code == ERR_EXISTS) { /* another engine was faster */
				err = (struct err){ 0 };
				r = find_program(k, names->program, map, &err);
			}
		}
		k->light.there = r == 0;
		k->light.refused = r < 0 && err.code != ERR_IO && err.code != ERR_BUSY;
	}
	r = k->light.there;
	pthread_mutex_unlock(&k->light.lock);
	return r;
}

/* Plans. */

bool light_make_plans(struct kube *k, const struct kube_job *j, struct kube_light *names)
{
	_cleanup_(json_decrefp) json_t *map = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < j->n; i++)
		if (!kube_light_suits(k->o.profile, j->attempts[i], &k->o.light))
			return false;
	if (!has_program(k, names) || kube_light_plans(j, &k->o.staging, names, &map, &err) != 0)
		return false;
	return request(k, "POST", NULL, map, KUBE_METADATA_ONLY, NULL, &err) == 0 ||
	       err.code == ERR_EXISTS;
}

int light_own_plans(struct kube *k, const char *plans, const char *job, const char *uid,
		    struct err *err)
{
	_cleanup_(json_decrefp) json_t *body =
		json_pack("{s:{s:[{s:s, s:s, s:s, s:s}]}}", "metadata", "ownerReferences",
			  "apiVersion", "batch/v1", "kind", "Job", "name", job, "uid", uid);
	struct err why = { 0 };

	if (request(k, "PATCH", plans, body, KUBE_METADATA_ONLY, NULL, &why) == 0 ||
	    why.code == ERR_NOT_FOUND)
		return 0;
	return err_pass(err, &why);
}

/* The log. */

static int put(struct kube *k, int fd, struct content_id *ret, char **ret_tail, struct err *err)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "the log");
	*ret_tail = workspace_log_tail(fd);
	return k->o.staging.put_log(k->o.staging.arg, fd, ret, err);
}

/* A runtime ends the last line, whether or not the program did. */
static bool is_whole(off_t size, const struct kube_light_result *l)
{
	return size == (off_t)l->log_bytes || size == (off_t)l->log_bytes + 1;
}

/* The kubelet may have removed the beginning of a long log, or the pod is gone. */
static int complete(int fd, const struct kube_light_result *l, struct err *err)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char note[160];

	if (is_whole(size, l))
		return ftruncate(fd, (off_t)l->log_bytes) < 0 ? err_errno(err, "the log") : 0;
	snprintf(note, sizeof(note),
		 "[cairn: %llu bytes of %llu are missing here: the node did not keep them]\n",
		 (unsigned long long)(l->log_bytes - l->n_log), (unsigned long long)l->log_bytes);
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "the log");
	return fs_write_all(fd, note, strlen(note), err) < 0 ||
			       fs_write_all(fd, l->log, l->n_log, err) < 0
		       ? -1
		       : 0;
}

int light_put_log(struct kube *k, const struct kube_light_result *l,
		  int (*fetch)(void *arg, int fd), void *arg, struct content_id *ret,
		  char **ret_tail, struct err *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("log", MFD_CLOEXEC);

	if (!l->log_bytes)
		return 0;
	if (fd < 0)
		return err_errno(err, "the log");
	if (l->n_log == l->log_bytes)
		return fs_write_all(fd, l->log, l->n_log, err) < 0 ? -1
								   : put(k, fd, ret, ret_tail, err);
	for (unsigned i = 0; i < LOG_TRIES; i++) {
		if (i && !atomic_load(&k->closing))
			clock_sleep(LOG_AGAIN_NS << (i - 1));
		if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
			return err_errno(err, "the log");
		(void)fetch(arg, fd);
		if (is_whole(lseek(fd, 0, SEEK_END), l))
			break;
	}
	return complete(fd, l, err) < 0 ? -1 : put(k, fd, ret, ret_tail, err);
}
