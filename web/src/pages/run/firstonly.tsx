// Below a list that ends before the run does.

import { part, place, url } from '../../base/route';
import { words } from '../../base/words';

export function FirstOnly({ run, n }: { run: string; n: number }) {
  const q = { project: place.value.query.get('project'), view: 'tasks' };
  return (
    <p class="body quiet">
      {words.run.firstOnly(n)} <a href={url(`/runs/${part(run)}`, q)}>{words.run.allTasks}</a>
    </p>
  );
}
