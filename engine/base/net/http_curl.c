/* libcurl, loaded when it is first needed: linking it would make every start of the program pay for
 * TLS and for thirty libraries. */
#include "base/net/http_internal.h"
#include "base/os/library.h"

#define VERSION_MIN 0x075500 /* 7.85.0: CURLOPT_PROTOCOLS_STR */

static struct curl_api api;
static struct err load_err; /* set once, before anyone reads it */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int load(void)
{
	static const char *const names[] = { "libcurl.so.4", NULL };
	static const struct library_function functions[] = {
#define CURL_ROW(name) \
	{ "curl_" #name, offsetof(struct curl_api, name), LIBRARY_LINKED(curl_##name) },
		CURL_FUNCTIONS(CURL_ROW)
	};
	const curl_version_info_data *version;
	const char *missing;

	if (library_open(names, functions, ARRAY_LEN(functions), &api, &missing) < 0)
		return missing ? err_set(&load_err, ERR_UNSUPPORTED,
					 "libcurl is too old: it lacks %s; 7.85 or newer is needed",
					 missing)
			       : err_set(&load_err, ERR_UNSUPPORTED,
					 "libcurl is not there (libcurl.so.4); install the package "
					 "libcurl4");
	version = api.version_info(CURLVERSION_NOW);
	if (version->version_num < VERSION_MIN)
		return err_set(&load_err, ERR_UNSUPPORTED,
			       "libcurl %s is too old; 7.85 or newer is needed", version->version);
	if (!(version->features & CURL_VERSION_SSL))
		return err_set(&load_err, ERR_UNSUPPORTED, "libcurl %s has no TLS",
			       version->version);
	if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(&load_err, ERR_UNSUPPORTED, "libcurl cannot start");
	return 0;
}

static void load_once(void)
{
	load();
}

int curl_api_get(const struct curl_api **ret, struct err *err)
{
	pthread_once(&once, load_once);
	if (load_err.code)
		return err_pass(err, &load_err);
	*ret = &api;
	return 0;
}
