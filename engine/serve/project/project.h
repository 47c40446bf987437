/* engine/serve/project/project.h — a project that the daemon serves: its configuration, database
 * and store.
 *
 * The loop's thread has the one handle that writes (`db`). HTTP threads borrow readers: a handle
 * belongs to one thread from project_reader() to project_reader_return(). Any thread may use the
 * store.
 */
#ifndef CAIRN_SERVE_PROJECT_PROJECT_H
#define CAIRN_SERVE_PROJECT_PROJECT_H

#include <pthread.h>
#include "model/config/config.h"
#include "record/db.h"
#include "storage/store.h"

#define PROJECT_READERS_MAX 16

struct scheduler_project;

struct project {
	const char *name; /* of the root directory; with "-2", "-3" when it is taken */
	const char *root; /* absolute */
	struct config *config;
	char *db_path;
	struct db *db; /* for the loop's thread */
	struct scheduler_project *scheduled;
	bool borrowed; /* config and db are the caller's */
	bool unread;   /* the last search for pipelines couldn't read all files */
	struct arena *arena;

	pthread_mutex_t lock; /* protects the fields below */
	struct db *readers[PROJECT_READERS_MAX];
	size_t n_readers;
	struct store *store;
};

/* `dir`: the project's root or a directory in it. The error lists all that is wrong with
 * cairn.yaml. */
int project_open(const char *dir, struct project **ret, struct err *err);
/* For the notices of one run: configuration and database are the caller's, and stay open. */
struct project *project_borrow(const struct config *config, struct db *db);
void project_free(struct project *p); /* NULL is fine; all readers must be back */
void project_rename(struct project *p, unsigned number);
/* Reads cairn.yaml again; after an error the old configuration stays. The state directory and the
 * store don't move. */
int project_reload(struct project *p, struct err *err);

/* The errors of a list in one line, "FILE:LINE:COL: message; …". No further one is added beyond
 * `max` bytes. */
void project_add_errors(struct str *out, struct diag_list *diags, size_t max);

int project_reader(struct project *p, struct db **ret, struct err *err);
void project_reader_return(struct project *p, struct db *db);
/* Opens the store at first use; ERR_NOT_FOUND while there is none. Borrowed. */
int project_store(struct project *p, struct store **ret, struct err *err);

#endif
