// What a listener hears, one thing after the other.

export class Heard {
  #waiting = [];
  #said = [];

  tell = (said) => {
    const waiting = this.#waiting.shift();
    waiting ? waiting(said) : this.#said.push(said);
  };

  next() {
    return this.#said.length ? Promise.resolve(this.#said.shift()) : new Promise((tell) => this.#waiting.push(tell));
  }
}
