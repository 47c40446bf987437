import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { signInWanted } from '../api';
import { readProjects } from '../base/project';
import { go } from '../base/route';
import { session } from '../base/session';
import { words } from '../base/words';
import { Copy } from '../parts/bits';
import icon from '../icon.svg?no-inline';

export default function SignIn() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const w = words.signIn;
  // `cairn ui` opens /sign-in#TOKEN with a token that works once.
  useEffect(() => {
    const once = location.hash.slice(1);
    if (!once) return;
    history.replaceState(null, '', location.pathname);
    void enter(decodeURIComponent(once));
  }, []);
  const send = (e: Event) => {
    e.preventDefault();
    void enter(token.trim());
  };
  const enter = async (given: string) => {
    setBusy(true);
    setProblem('');
    try {
      session.value = await api.signIn({ token: given });
      await readProjects();
      signInWanted.value = false;
      if (location.pathname === '/sign-in') go('/', { replace: true });
    } catch (x) {
      setProblem((x as api.Problem).status === 401 ? w.wrong : (x as api.Problem).detail);
    }
    setBusy(false);
  };
  return (
    <div class="signin card">
      <form onSubmit={send} class="stack">
        <h1 class="row">
          <img src={icon} alt="" width="24" height="24" /> {w.title}
        </h1>
        <label class="labelled">
          {w.token}
          <input
            class="field"
            type="password"
            autocomplete="current-password"
            required
            autofocus
            value={token}
            aria-invalid={!!problem}
            aria-describedby="signin-problem"
            onInput={(e) => setToken(e.currentTarget.value)}
          />
        </label>
        <p id="signin-problem" class="tone-failed state" role="alert">
          {problem}
        </p>
        <button type="submit" class="btn primary" disabled={busy || !token.trim()}>
          {w.submit}
        </button>
        <p class="second">{w.hint}</p>
        <div class="row nowraprow">
          <code class="ellipsis">{w.command}</code>
          <Copy text={w.command} />
        </div>
      </form>
    </div>
  );
}
