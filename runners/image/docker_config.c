/* runners/image/docker_config.c — Docker's config.json: the credentials for each registry.
 *
 * Sources: docs.docker.com, "docker login"; the Kubernetes documentation, "Config.json
 * interpretation". The files are a list in the order of the attempts: given texts first, the user's
 * own file last. After a refused credential, `from` of docker_config_find() continues with the next
 * file.
 *
 * In one file, a helper of credHelpers comes first, then the entry of auths with the best matching
 * key (key_fits(): the longest path below a host that matches, with stars). Without a matching
 * entry, credsStore is used, as Docker does. Helpers are programs (docker-credential-X get) with a
 * time limit.
 *
 * The files are read once and never change: any thread may call. The caller wipes the secrets in
 * its credential; messages never quote file content.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/text/json.h"
#include "runners/image/registry_internal.h"

#define CONFIG_MAX   (4 * MIB)
#define HELPER_NS    (60 * NS_PER_S) /* it may ask a cloud, or unlock a key ring */
#define HELPER_BYTES (256 * KIB)
/* Helpers give this name when the secret is an identity token. */
#define TOKEN_USER     "<token>"
#define DOCKER_HUB_KEY "https://index.docker.io/v1/"

struct docker_file {
	char *name;
	json_t *json;
};

struct docker_config {
	VEC(struct docker_file) files;
};

/* Reading. */

/* The older form, without `auths` around it, as in Secrets of type kubernetes.io/dockercfg.
 */
static json_t *with_auths(json_t *j)
{
	if (json_object_get(j, "auths") || json_object_get(j, "credsStore") ||
	    json_object_get(j, "credHelpers") || json_object_size(j) == 0)
		return j;
	return json_pack("{s:o}", "auths", j);
}

static int take_text(struct docker_config *c, const char *name, const char *path, const char *text,
		     size_t n, struct err *err)
{
	json_t *j;

	if (json_parse(path, text, n, &j, err) < 0)
		return -1;
	if (!json_is_object(j)) {
		json_decref(j);
		return err_set(err, ERR_INVALID, "%s is not an object", path);
	}
	VEC_PUSH(&c->files, ((struct docker_file){ xstrdup(name), j }));
	return 0;
}

static int take_own(struct docker_config *c, struct err *err)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	_cleanup_(freep) char *path = NULL;
	struct str text = { 0 };
	struct err why = { 0 };
	int r;

	if (dir && *dir)
		path = xasprintf("%s/config.json", dir);
	else if (home && *home)
		path = xasprintf("%s/.docker/config.json", home);
	else
		return 0;
	r = fs_read_file(path, CONFIG_MAX, &text, &why);
	if (r < 0 && why.code == ERR_NOT_FOUND)
		r = 0;
	else if (r < 0)
		*err = why;
	else if (text.len)
		r = take_text(c, "Docker's configuration", path, text.s, text.len, err);
	str_wipe(&text);
	return r;
}

int docker_config_new(const struct docker_text *texts, struct docker_config **ret, struct err *err)
{
	struct docker_config *c = xcalloc(1, sizeof(*c));
	int r = 0;

	for (; texts && texts->text && r == 0; texts++) {
		r = take_text(c, texts->name, texts->name, texts->text, strlen(texts->text), err);
		if (r == 0)
			c->files.v[c->files.n - 1].json =
				with_auths(c->files.v[c->files.n - 1].json);
	}
	if (r == 0)
		r = take_own(c, err);
	if (r < 0) {
		docker_config_free(c);
		return -1;
	}
	*ret = c;
	return 0;
}

void docker_config_free(struct docker_config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->files.n; i++) {
		free(c->files.v[i].name);
		json_decref(c->files.v[i].json);
	}
	VEC_FREE(&c->files);
	free(c);
}

void registry_credential_wipe(struct registry_credential *c)
{
	str_wipe(&c->user);
	str_wipe(&c->password);
	str_wipe(&c->identity);
	str_wipe(&c->bearer);
}

/* Keys: "registry.example", "https://registry.example:5000/v2/", "*.example/team". */

/* "*.azurecr.io" fits "a.azurecr.io", not "b.a.azurecr.io": a star stays within one part. */
static bool host_fits(const char *p, const char *p_end, const char *h)
{
	const char *star = NULL, *from = NULL;

	while (*h) {
		if (p < p_end && *p == '*') {
			star = ++p;
			from = h;
		} else if (p < p_end && *p == *h) {
			p++;
			h++;
		} else if (star && *from != '.') {
			p = star;
			h = ++from;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*')
		p++;
	return p == p_end;
}

static bool is_docker_hub(const char *host, size_t n)
{
	static const char *const names[] = { "docker.io", "index.docker.io",
					     "registry-1.docker.io" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strlen(names[i]) == n && memcmp(names[i], host, n) == 0)
			return true;
	return false;
}

/* How well the key matches this image: 0 not at all; a longer path is better. */
static size_t key_fits(const char *key, const struct image_ref *ref)
{
	const char *at = strstr(key, "://") ? strstr(key, "://") + 3 : key,
		   *slash = strchrnul(at, '/'), *below = *slash ? slash + 1 : slash;
	size_t n = strlen(below);
	bool hub = is_docker_hub(ref->host, strlen(ref->host)) &&
		   is_docker_hub(at, (size_t)(slash - at));

	if (!hub && !host_fits(at, slash, ref->host))
		return 0;
	while (n > 0 && below[n - 1] == '/')
		n--;
	if (n == 0 || (n == 2 && (memcmp(below, "v1", 2) == 0 || memcmp(below, "v2", 2) == 0)))
		return 1;
	return strncmp(ref->path, below, n) == 0 && (ref->path[n] == '\0' || ref->path[n] == '/')
		       ? 1 + n
		       : 0;
}

static const json_t *best_entry(const json_t *map, const struct image_ref *ref)
{
	const json_t *best = NULL;
	size_t best_fit = 0, fit;
	const char *key;
	json_t *entry;

	if (!json_is_object(map))
		return NULL;
	json_object_foreach((json_t *)map, key, entry)
	{
		fit = key_fits(key, ref);
		if (fit > best_fit) {
			best = entry;
			best_fit = fit;
		}
	}
	return best;
}

/* One entry. */

static void take_string(struct str *into, const json_t *entry, const char *key)
{
	const char *text = json_string_value(json_object_get(entry, key));

	if (text && *text)
		str_add(into, text);
}

/* base64 of "user:password"; some programs append NULs. */
static int take_auth(const json_t *entry, const char *host, struct registry_credential *ret,
		     struct err *err)
{
	const char *text = json_string_value(json_object_get(entry, "auth")), *colon;
	struct str plain = { 0 };
	int r = 0;

	if (!text || !*text)
		return 0;
	r = base64_decode(&plain, text, strlen(text), NULL);
	colon = r == 0 && plain.len ? strchr(plain.s, ':') : NULL;
	if (!colon) {
		r = err_set(
			err, ERR_INVALID,
			"Docker's configuration: `auth` of %s is not the base64 of user:password",
			host);
	} else {
		str_addn(&ret->user, plain.s, (size_t)(colon - plain.s));
		str_add(&ret->password, colon + 1);
	}
	str_wipe(&plain);
	return r;
}

static int take_entry(const json_t *entry, const char *host, struct registry_credential *ret,
		      struct err *err)
{
	take_string(&ret->bearer, entry, "registrytoken");
	take_string(&ret->identity, entry, "identitytoken");
	if (take_auth(entry, host, ret, err) < 0)
		return -1;
	if (!ret->user.len) {
		take_string(&ret->user, entry, "username");
		take_string(&ret->password, entry, "password");
	}
	return 0;
}

static bool is_said(const struct registry_credential *c)
{
	return c->user.len || c->identity.len || c->bearer.len;
}

/* Helpers: docker-credential-NAME get. */

static int take_answer(const char *name, const struct str *out, struct registry_credential *ret,
		       struct err *err)
{
	const char *user, *secret;
	json_t *j;
	int r;

	if (json_parse(name, out->len ? out->s : "", out->len, &j, NULL) <
	    0) /* its error might quote the secret */
		return err_set(err, ERR_INVALID, "%s prints something else than JSON", name);
	r = json_get_str(j, "Username", &user, err) < 0 ||
			    json_get_str(j, "Secret", &secret, err) < 0
		    ? err_wrap(err, "%s", name)
		    : 0;
	if (r == 0 && strcmp(user, TOKEN_USER) == 0) {
		str_add(&ret->identity, secret);
	} else if (r == 0) {
		str_add(&ret->user, user);
		str_add(&ret->password, secret);
	}
	json_decref(j);
	return r;
}

static int ask_helper(const char *helper, const char *host, struct registry_credential *ret,
		      struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("docker-credential-%s", helper);
	const char *const argv[] = { name, "get", NULL };
	struct command c = { .argv = argv,
			     .input = is_docker_hub(host, strlen(host)) ? DOCKER_HUB_KEY : host,
			     .timeout_ns = HELPER_NS,
			     .max_bytes = HELPER_BYTES };
	struct str out = { 0 };
	int status, r;

	if (!*helper || helper[strspn(helper, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					      "0123456789._-")])
		return err_set(err, ERR_INVALID,
			       "Docker's configuration: the name of a credential helper has "
			       "letters, digits, `.`, `_` and `-` only");
	r = command_output(&c, &out, &status, err) < 0 ? err_wrap(err, "%s", name) : 0;
	if (r == 0 && status == 0)
		r = take_answer(name, &out, ret, err);
	else if (r == 0 && !memmem(out.s ? out.s : "", out.len, "credentials not found", 21))
		r = err_set(err, ERR_INVALID, "%s can't give credentials for %s: exit status %d",
			    name, host, status);
	str_wipe(&out);
	return r;
}

static int find_in(const json_t *config, const struct image_ref *ref,
		   struct registry_credential *ret, struct err *err)
{
	const json_t *entry = best_entry(json_object_get(config, "auths"), ref);
	const char *helper =
		json_string_value(best_entry(json_object_get(config, "credHelpers"), ref));
	struct err why = { 0 };

	if (helper)
		return ask_helper(helper, ref->host, ret, err);
	if (entry && take_entry(entry, ref->host, ret, err) < 0)
		return -1;
	helper = json_string_value(json_object_get(config, "credsStore"));
	if (!helper || is_said(ret) || ask_helper(helper, ref->host, ret, &why) == 0)
		return 0;
	/* Without an entry, a missing helper isn't an error: the registry may need no login. */
	if (!entry && why.code == ERR_NOT_FOUND)
		return 0;
	*err = why;
	return -1;
}

int docker_config_find(const struct docker_config *c, const struct image_ref *ref, size_t from,
		       struct registry_credential *ret, size_t *ret_which, struct err *err)
{
	for (size_t i = from; i < c->files.n; i++) {
		if (find_in(c->files.v[i].json, ref, ret, err) < 0) {
			registry_credential_wipe(ret);
			return -1;
		}
		if (is_said(ret)) {
			*ret_which = i;
			return 1;
		}
	}
	return 0;
}

const char *docker_config_name(const struct docker_config *c, size_t which)
{
	assert(which < c->files.n);
	return c->files.v[which].name;
}
