#include "base/os/library.h"
#include <dlfcn.h>
#include "base/macros.h"

int library_open(const char *const *names, const struct library_function *functions, size_t n,
		 void *table, const char **ret_missing)
{
	void *lib = NULL;

	*ret_missing = NULL;
#ifndef CAIRN_STATIC
	for (; *names && !lib; names++)
		lib = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return -1;
#endif
	for (size_t i = 0; i < n; i++) {
		void *f = lib ? dlsym(lib, functions[i].name) : functions[i].linked;

		if (!f) {
			*ret_missing = functions[i].name;
			return -1;
		}
		*(void **)((char *)table + functions[i].offset) = f;
	}
	return 0;
}
