#include "serve/web/mhd.h"
#include <dlfcn.h>
#include <stdbool.h>

int mhd_api_get(const struct mhd_api **ret, struct err *err)
{
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {
#define MHD_ROW(name) { "MHD_" #name, offsetof(struct mhd_api, name) },
		MHD_FUNCTIONS(MHD_ROW)
	};
	static struct mhd_api api;
	static bool loaded;
	void *lib;

	*ret = &api;
	if (loaded)
		return 0;
	lib = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return err_set(err, ERR_UNSUPPORTED,
			       "libmicrohttpd is not there (libmicrohttpd.so.12); install the "
			       "package libmicrohttpd12, or serve with --listen none");
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		void *f = dlsym(lib, functions[i].name);

		if (!f)
			return err_set(err, ERR_UNSUPPORTED,
				       "libmicrohttpd is too old: it lacks %s", functions[i].name);
		*(void **)((char *)&api + functions[i].offset) = f;
	}
	loaded = true;
	return 0;
}
