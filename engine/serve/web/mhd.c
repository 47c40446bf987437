#include "serve/web/mhd.h"
#include <stdbool.h>
#include "base/macros.h"
#include "base/os/library.h"

int mhd_api_get(const struct mhd_api **ret, struct err *err)
{
	static const char *const names[] = { "libmicrohttpd.so.12", NULL };
	static const struct library_function functions[] = {
#define MHD_ROW(name) { "MHD_" #name, offsetof(struct mhd_api, name), LIBRARY_LINKED(MHD_##name) },
		MHD_FUNCTIONS(MHD_ROW)
	};
	static struct mhd_api api;
	static bool loaded;
	const char *missing;

	*ret = &api;
	if (loaded)
		return 0;
	if (library_open(names, functions, ARRAY_LEN(functions), &api, &missing) < 0)
		return missing ? err_set(err, ERR_UNSUPPORTED,
					 "libmicrohttpd is too old: it lacks %s", missing)
			       : err_set(err, ERR_UNSUPPORTED,
					 "libmicrohttpd is not there (libmicrohttpd.so.12); "
					 "install the package libmicrohttpd12, or serve with "
					 "--listen none");
	loaded = true;
	return 0;
}
