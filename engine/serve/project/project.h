/* serve/project/project.h — a project that the daemon serves: its configuration, its database, its
 * store.
 *
 * The loop's thread has the one handle that writes (`db`). Threads that answer HTTP borrow readers:
 * a handle is one thread's from project_reader() to project_reader_return(). The store may be used
 * by any thread.
 */
#ifndef CAIRN_SERVE_PROJECT_PROJECT_H
#define CAIRN_SERVE_PROJECT_PROJECT_H

#include <pthread.h>
#include "model/config.h"
#include "record/db.h"
#include "storage/store.h"

#define PROJECT_READERS_MAX 16

struct scheduler_project;

struct project {
	const char *name; /* of the root directory; "-2", "-3" behind it when it is taken */
	const char *root; /* absolute */
	struct config *config;
	char *db_path;
	struct db *db; /* the loop's */
	struct scheduler_project *scheduled;
	bool unread; /* at the last look for pipelines, some file or directory */
	struct arena *arena;

	pthread_mutex_t lock; /* what follows */
	struct db *readers[PROJECT_READERS_MAX];
	size_t n_readers;
	struct store *store;
};

/* `dir`: the project's root or a directory in it. What is wrong with cairn.yaml goes into the
 * error, all of it. */
int project_open(const char *dir, struct project **ret, struct err *err);
void project_free(struct project *p); /* NULL is fine; all readers are back */
void project_rename(struct project *p, unsigned number);
/* cairn.yaml again; an error leaves what was. The state directory and the store stay where they
 * were. */
int project_reload(struct project *p, struct err *err);

/* The errors of a list in one line, "FILE:LINE:COL: message; …"; none begins behind `max` bytes. */
void project_add_errors(struct str *out, struct diag_list *diags, size_t max);

int project_reader(struct project *p, struct db **ret, struct err *err);
void project_reader_return(struct project *p, struct db *db);
/* Opened at first use; ERR_NOT_FOUND while there is none. Lent. */
int project_store(struct project *p, struct store **ret, struct err *err);

#endif
