// The input of a question, by its kind. All answers are strings.

import { useId } from "react";
import type { QuestionKind } from "../made/typescript/graphql.ts";

interface Props {
  question: { kind: QuestionKind; text: string; options: string[] };
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}

const YES_NO = { true: "Yes", false: "No" };

export function Field({ question: { kind, text, options }, value, problem, onChange }: Props) {
  const id = useId();
  const input = {
    id,
    value,
    "aria-invalid": !!problem,
    "aria-describedby": `${id}-problem`,
    onChange: ({ target }: { target: { value: string } }) => onChange(target.value),
  };
  const explanation = <em id={`${id}-problem`}>{problem}</em>;
  if (kind === "MULTIPLE_CHOICE") {
    return (
      <fieldset aria-describedby={`${id}-problem`}>
        <legend>{text}</legend>
        <Checkboxes {...{ options, value, onChange }} />
        {explanation}
      </fieldset>
    );
  }
  const choices = kind === "YES_NO" ? Object.entries(YES_NO) : options.map((option) => [option, option]);
  return (
    <div className="field">
      <label htmlFor={id}>{text}</label>
      {kind === "TEXT" && <textarea rows={4} {...input} />}
      {kind === "NUMBER" && <input inputMode="decimal" {...input} />}
      {(kind === "YES_NO" || kind === "SINGLE_CHOICE" || kind === "SCALE") && (
        <select {...input}>
          {[["", ""], ...choices].map(([choice, label]) => (
            <option key={choice} value={choice} label={label} />
          ))}
        </select>
      )}
      {explanation}
    </div>
  );
}

/** The answer has one option per line. */
function Checkboxes(props: { options: string[]; value: string; onChange: Props["onChange"] }) {
  const chosen = props.value.split("\n");
  const toggled = (one: string) => props.options.filter((each) => chosen.includes(each) !== (each === one)).join("\n");
  return props.options.map((one) => (
    <label key={one}>
      <input type="checkbox" checked={chosen.includes(one)} onChange={() => props.onChange(toggled(one))} /> {one}
    </label>
  ));
}
