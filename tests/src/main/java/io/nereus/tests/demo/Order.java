package io.nereus.tests.demo;

/** What the JSON producers send. Public fields and a public constructor: the schema is derived from them. */
public class Order {

    public long number;
    public String customer;
    public double amount;

    public Order() { }

    Order(long number, String customer, double amount) {
        this.number = number;
        this.customer = customer;
        this.amount = amount;
    }
}
