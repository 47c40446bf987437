import { render } from 'preact';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';
import { App } from './app';
import { listen as listenRoute } from './base/route';
import { listen as listenKeys } from './base/keys';
import { listen as listenTheme } from './base/theme';

listenTheme();
listenRoute();
listenKeys();
render(<App />, document.getElementById('app')!);
