// What is not right here, tsc refuses: a `DateTime` that is `any` is not the same as a string.

import type { ResultOf, VariablesOf } from "@graphql-typed-document-node/core";
import type { ASSIGN, HOMEWORK } from "./homework.ts";

type Same<One, Other> = (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? true : false;
declare function so<Claim extends true>(): Claim;

type Homework = ResultOf<typeof HOMEWORK>["assignments"];
type Assignment = Homework["nodes"][number];
type Wanted = VariablesOf<typeof HOMEWORK>;
type Assigned = ResultOf<typeof ASSIGN>["assignHomework"];
type Given = VariablesOf<typeof ASSIGN>["input"];

// What an answer holds
so<Same<Assignment["id"], string>>();
so<Same<Assignment["startDate"], string>>();
so<Same<Assignment["endDate"], string | null>>();
so<Same<Assignment["status"], "PENDING" | "COMPLETE">>();
so<Same<Assignment["isTest"], boolean>>();
so<Same<Assignment["score"], number>>();
so<Same<Assignment["draft"], { __typename: "AnswerSet"; id: string } | null>>();
so<Same<Assignment["client"]["progress"]["completion"][number]["week"], string>>();
so<Same<Homework["totalCount"], number>>();

// What is given
so<Same<Wanted["since"], string | null | undefined>>();
so<Same<Given["startDate"], string>>();
so<Same<Given["bookIds"], Array<string>>>();
so<Same<Given["remindDates"], Array<string> | null | undefined>>();

// What a person can mend
so<Same<Assigned["userErrors"][number]["field"], Array<string> | null>>();

// @ts-expect-error: the session and the window are missing
const given: Given = { bookIds: ["1"] };
// @ts-expect-error: moments are text, not Date
const startDate: Given["startDate"] = new Date();
