// What the list shows without runs: how to submit the first one, or which filter is in the way.

import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { quoted } from "../../components/call-menu";
import { CopyButton } from "../../components/copy";
import { Empty } from "../../components/notice";
import { page } from "../../page";
import { t } from "../../texts";
import { ChipButton } from "./filter-chips";
import { apiQuery, chipsOf, NO_FILTERS, without, type Chip, type Filters } from "./filters";

export function EmptyList({ filters, onChange }: { filters: Filters; onChange: (filters: Filters) => void }) {
  return chipsOf(filters).length === 0 ? <NoRuns /> : <NoMatch filters={filters} onChange={onChange} />;
}

function NoRuns() {
  const texts = t.value.runs;
  const command = `pyoco-client --server ${quoted(page.baseUrl.replace(/\/$/, ""))} submit --flow-name hello`;
  return (
    <Empty title={texts.noRuns}>
      <p>{texts.noRunsHint}</p>
      <div class="runs-command">
        <code>{command}</code>
        <CopyButton text={command} />
      </div>
    </Empty>
  );
}

function NoMatch({ filters, onChange }: { filters: Filters; onChange: (filters: Filters) => void }) {
  const texts = t.value.runs;
  const chips = chipsOf(filters);
  const { data } = useQuery(JSON.stringify(filters), async (signal) => {
    const hasRuns = await Promise.all(chips.map((chip) => isFound(without(filters, chip), signal)));
    return chips.filter((_, index) => hasRuns[index]);
  });
  return (
    <Empty title={texts.noMatch}>
      {data?.length === 0 && <p>{texts.noMatchAtAll}</p>}
      {data && data.length > 0 && (
        <>
          <p>{texts.noMatchOf}</p>
          <ul class="runs-chips">
            {data.map((chip: Chip) => (
              <li key={JSON.stringify(chip)}>
                <ChipButton chip={chip} onRemove={() => onChange(without(filters, chip))} />
              </li>
            ))}
          </ul>
        </>
      )}
      <button type="button" onClick={() => onChange(NO_FILTERS)}>
        {texts.filters.clear}
      </button>
    </Empty>
  );
}

async function isFound(filters: Filters, signal: AbortSignal): Promise<boolean> {
  const query = { ...apiQuery(filters, Date.now() / 1000), cursor: "", limit: 1 };
  const found = await body(api.GET("/runs", { params: { query }, signal }));
  return "items" in found && found.items.length > 0;
}
