// The frame of the page: navigation, the view of the present place, footer.

import { useComputed } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { asProblem, type Problem } from "./api/problem";
import { may, needsCredential } from "./api/session";
import { Account } from "./components/account";
import { ConfirmationHost } from "./components/actions";
import { LongText } from "./components/name";
import { Empty, Loading, Notice, ProblemNotice } from "./components/notice";
import { isHelpOpen, ShortcutHelp, useShortcuts } from "./components/shortcuts";
import { SignIn } from "./components/sign-in";
import { chooseLanguage, language } from "./language";
import { page, type Language } from "./page";
import { hashOf, place, type Place } from "./router";
import { t } from "./texts";
import { chooseTheme, theme, type Theme } from "./theme";
import { viewOf, VIEWS, type View, type ViewProps } from "./views";

export function App() {
  const texts = t.value.shell;
  useShortcuts([{ keys: ["?"], text: texts.shortcuts, run: () => (isHelpOpen.value = true) }]);
  const view = viewOf(place.value.path);
  useEffect(() => {
    document.title = view ? `${texts.pages[view.name]} · ${texts.product}` : texts.product;
  }, [view, texts]);
  return (
    <>
      <Header view={view} />
      <main id="content" tabIndex={-1}>
        {needsCredential.value ? <SignIn /> : view ? <ShownView key={view.path + String(view.hasRest)} view={view} /> : <NotFound />}
      </main>
      <Footer />
      <ShortcutHelp />
      <ConfirmationHost />
    </>
  );
}

function Header({ view }: { view: View | undefined }) {
  const texts = t.value.shell;
  return (
    <header class="page-head">
      <a
        class="skip-link"
        href={hashOf(place.value.path, place.value.query)}
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        {texts.skipToContent}
      </a>
      <a class="brand" href="#/">
        <img src="static/favicon.svg" alt="" width="24" height="24" />
        {texts.product}
      </a>
      <nav aria-label={texts.navigation}>
        <ul>
          {VIEWS.filter((each) => each.isInNavigation).map((each) => (
            <li key={each.path}>
              <a href={hashOf([each.path])} aria-current={view?.path === each.path ? "page" : undefined}>
                {texts.pages[each.name]}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Account />
    </header>
  );
}

function ShownView({ view }: { view: View }) {
  const [Loaded, setLoaded] = useState<ComponentType<ViewProps> | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const rest = useComputed(() => place.value.path.slice(1));
  useEffect(() => {
    view.load().then(
      (module) => setLoaded(() => module.default),
      (error: unknown) => setProblem(asProblem(error)),
    );
  }, [view]);
  // A part of the page that is gone after an update of the gateway: a new page has the new parts.
  if (problem) return <ProblemNotice problem={problem} onRetry={() => location.reload()} />;
  if (!may(view.scope)) return <MissingScope scope={view.scope} />;
  return Loaded ? <Guarded view={Loaded} rest={rest.value} /> : <Loading />;
}

/** A view. If it throws, the rest of the page stays, and the next place is shown as ever. */
function Guarded({ view: Shown, rest }: { view: ComponentType<ViewProps>; rest: readonly string[] }) {
  const texts = t.value.shell;
  const failedAt = useRef<Place | null>(null);
  const [error, retry] = useErrorBoundary((thrown: unknown) => {
    failedAt.current = place.peek();
    console.error(thrown);
  });
  useEffect(() => {
    if (error !== undefined && place.value !== failedAt.current) retry();
  }, [place.value]);
  if (error === undefined) return <Shown rest={rest} />;
  return (
    <Notice kind="error">
      <p>
        <strong>{texts.failed}</strong>
      </p>
      <LongText text={String(error)} />
      <button type="button" onClick={retry}>
        {texts.retry}
      </button>
    </Notice>
  );
}

function MissingScope({ scope }: { scope: string }) {
  const texts = t.value.shell.problems;
  return (
    <Empty title={texts.missingScope(scope)}>
      <p class="muted">{texts.missingScopeHint}</p>
    </Empty>
  );
}

function NotFound() {
  return (
    <Empty title={t.value.shell.notFound}>
      <a href="#/">{t.value.shell.toOverview}</a>
    </Empty>
  );
}

function Footer() {
  const texts = t.value.shell;
  return (
    <footer class="page-foot">
      <span>
        {texts.product} {page.version}
      </span>
      <a href="docs">{texts.apiDocs}</a>
      <a href="static/notices.txt">{texts.notices}</a>
      <button type="button" class="quiet" onClick={() => (isHelpOpen.value = true)}>
        {texts.shortcuts} <kbd>?</kbd>
      </button>
      <span class="spring" />
      <label>
        {texts.theme}
        <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
          {(["system", "light", "dark"] as const).map((each) => (
            <option key={each} value={each}>
              {texts.themes[each]}
            </option>
          ))}
        </select>
      </label>
      <label>
        {texts.language}
        <select value={language.value} onChange={(event) => chooseLanguage(event.currentTarget.value as Language)}>
          <option value="en" lang="en">
            English
          </option>
          <option value="ja" lang="ja">
            日本語
          </option>
        </select>
      </label>
    </footer>
  );
}
